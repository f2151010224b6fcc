package bench

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// A run measures a scenario once.
type run func(ctx context.Context, t *trial) error

// A trial is one round of one scenario on one store.
type trial struct {
	Options
	store  Store
	sample Sample
	waits  []time.Duration // of every acquisition, sorted
	note   string          // how the run differs from the options

	clients []Client
}

// open returns a new client, which is closed at the end of the trial.
func (t *trial) open(ctx context.Context, ttl time.Duration) (Client, error) {
	c, err := t.store.Open(ctx, ttl)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	t.clients = append(t.clients, c)
	return c, nil
}

func (t *trial) openSeveral(ctx context.Context, n int) ([]Client, error) {
	for range n {
		if _, err := t.open(ctx, t.ttl()); err != nil {
			return nil, err
		}
	}
	return t.clients, nil
}

func (t *trial) close() error {
	var errs []error
	for _, c := range t.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// newKey returns a fresh key.
func newKey() string {
	var b [8]byte
	crand.Read(b[:])
	return "bench-" + hex.EncodeToString(b[:])
}

// A worker repeats a cycle on one key: acquire, hold, release.
type worker struct {
	client Client
	key    string
	hold   time.Duration
	reads  int  // how many of ten cycles request a shared lease
	hidden bool // its waits and its share are not measured

	cycles int             // granted before the end
	waits  []time.Duration // of all acquisitions, including those cut off at the end
}

// room is the initial capacity for waits, of all workers together. A slice that grows is copied repeatedly, and the
// time for this would count as the store's.
const room = 1 << 20

// patience is how long after the end of a round the waiters may still be granted the key.
const patience = 2 * time.Second

// A span is the time in which the workers repeat their cycles.
type span struct {
	start   time.Time
	length  time.Duration
	acquire context.Context // ends some time after the span
	release context.Context // does not end
}

// work repeats the cycle until the end of the span. It reads the clock only twice per cycle, because some stores take
// little longer than that.
func (w *worker) work(s *span) error {
	for begun := time.Since(s.start); begun < s.length; begun = time.Since(s.start) {
		if err := w.cycle(s, begun); err != nil {
			return err
		}
	}
	return nil
}

// cycle runs one cycle of a worker. The cycle counts only if the key is granted before the end of the span.
func (w *worker) cycle(s *span, begun time.Duration) error {
	l, err := w.acquire(s.acquire)
	got := time.Since(s.start)
	if err != nil {
		if s.acquire.Err() != nil { // the worker has waited for at least that long
			w.waits = append(w.waits, got-begun)
		}
		return err
	}
	w.waits = append(w.waits, got-begun)
	if got < s.length {
		w.cycles++
	}
	w.keep(s.acquire)
	return l.Release(s.release)
}

func (w *worker) acquire(ctx context.Context) (Lease, error) {
	if w.reads == 0 || rand.IntN(10) >= w.reads {
		return w.client.Acquire(ctx, w.key)
	}
	c, ok := w.client.(SharedClient)
	if !ok {
		return nil, ErrUnsupported
	}
	return c.AcquireShared(ctx, w.key)
}

// keep holds the key. A long hold ends with ctx. A short hold allocates nothing, because that would count as the
// store's.
func (w *worker) keep(ctx context.Context) {
	const short = 100 * time.Millisecond
	if w.hold <= short {
		time.Sleep(w.hold)
		return
	}
	timer := time.NewTimer(w.hold)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// cycles lets the workers repeat their cycles for the duration, and measures.
func (t *trial) cycles(ctx context.Context, workers []*worker) error {
	release := context.WithoutCancel(ctx)
	for _, w := range workers { // warm up: open connections, load scripts
		warm := worker{client: w.client, key: newKey(), reads: w.reads}
		if err := warm.cycle(&span{acquire: ctx, release: release}, 0); err != nil {
			return err
		}
		w.waits = make([]time.Duration, 0, room/len(workers))
	}
	before, err := t.begin(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	end := start.Add(t.Duration)
	bounded, cancel := context.WithDeadline(ctx, end.Add(patience))
	defer cancel()
	s := &span{start: start, length: t.Duration, acquire: bounded, release: release}
	var wg sync.WaitGroup
	errs := make([]error, len(workers))
	for i, w := range workers {
		wg.Go(func() {
			errs[i] = w.work(s)
			if bounded.Err() != nil && errors.Is(errs[i], context.DeadlineExceeded) {
				errs[i] = nil
			}
		})
	}
	select {
	case <-time.After(time.Until(end)):
	case <-ctx.Done():
	}
	after, err := t.end(release)
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	var waits []time.Duration
	var shares []int
	done, turns := 0, 0
	for _, w := range workers {
		done += w.cycles
		if !w.hidden {
			turns += w.cycles
			waits = append(waits, w.waits...)
			shares = append(shares, w.cycles)
		}
	}
	t.sample.set(Rate, float64(done)/t.Duration.Seconds())
	if done > 0 {
		t.spent(before, after, done)
	}
	switch {
	case len(shares) == 1:
	case turns >= leastTurns*len(shares):
		t.sample.set(Jain, jain(shares))
	case t.note == "":
		t.note = "rounds too short to measure fairness"
	default:
		t.note += ", too short to measure fairness"
	}
	t.waited(waits)
	return nil
}

// A spending is what the client's process and the server have used so far.
type spending struct {
	requests int64
	allocs   uint64
	cpu      time.Duration
}

// begin and end count before and after a span. Asking a server for its count uses resources too, so both do it outside
// the span.
func (t *trial) begin(ctx context.Context) (s spending, err error) {
	s.requests, err = t.served(ctx)
	s.look()
	return s, err
}

func (t *trial) end(ctx context.Context) (s spending, err error) {
	s.look()
	s.requests, err = t.served(ctx)
	return s, err
}

// look records the resources that this process has used.
func (s *spending) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.allocs, s.cpu = m.Mallocs, processCPU()
}

// served returns how many requests the server has served, or 0 if it does not report the number.
func (t *trial) served(ctx context.Context) (int64, error) {
	if t.store.Requests == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	n, err := t.store.Requests(ctx)
	if err != nil {
		return 0, fmt.Errorf("count requests: %w", err)
	}
	return n, nil
}

// countTime is how long a server may take to report its count.
const countTime = 5 * time.Second

// spent adds to the sample what each cycle used between two counts.
func (t *trial) spent(before, after spending, cycles int) {
	t.sample.set(Allocs, float64(after.allocs-before.allocs)/float64(cycles))
	if used := after.cpu - before.cpu; used > 0 {
		t.sample.set(Work, used.Seconds()/float64(cycles))
	}
	if t.store.Requests != nil {
		t.sample.set(Requests, float64(after.requests-before.requests)/float64(cycles))
	}
}

// number returns how many leases one client holds: the number in the options, but no more than the store allows.
func (t *trial) number(asked, usual int) int {
	n := asked
	if n == 0 {
		n = usual
	}
	if most := t.store.MaxLeases; most > 0 && n > most {
		t.note = fmt.Sprintf("%d at once, for want of connections", most)
		n = most
	}
	return n
}

// holding returns how long a contended key is held. It extends the rounds so that each has time for some cycles.
func (t *trial) holding(usual time.Duration) time.Duration {
	switch {
	case t.Hold < 0:
		return 0
	case t.Hold > 0:
		usual = t.Hold
	}
	const cycles = 20
	if least := cycles * usual; t.Duration < least {
		t.Duration, t.note = least, fmt.Sprintf("rounds of %v", least)
	}
	return usual
}
