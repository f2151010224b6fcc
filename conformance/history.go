package conformance

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// Environment variables for the analysis of a failure.
const (
	seedVariable = "ANYLOCK_CONFORMANCE_SEED" // makes the same random choices again
	dirVariable  = "ANYLOCK_CONFORMANCE_DIR"  // where pictures are written; default: the system's temporary folder
)

// A history records what racing workers see of some keys, under faults or not, and checks the record against a model.
type history struct {
	t     *trial
	seed  uint64
	begun time.Time

	mu     sync.Mutex
	record record
}

func (t *trial) newHistory() *history {
	h := &history{t: t, seed: rand.Uint64(), begun: time.Now()}
	if s := os.Getenv(seedVariable); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.fatalf("%s: %v", seedVariable, err)
		}
		h.seed = seed
	}
	return h
}

// random returns the random choices of one actor. They depend only on the seed and on actor.
func (h *history) random(actor int) dice { return dice{rand.New(rand.NewPCG(h.seed, uint64(actor)))} }

// dice are random choices that a seed determines.
type dice struct{ *rand.Rand }

// upTo returns a random duration less than most.
func (d dice) upTo(most time.Duration) time.Duration { return time.Duration(d.Int64N(int64(most))) }

func (h *history) now() instant { return time.Since(h.begun) }

func (h *history) at(when time.Time) instant { return when.Sub(h.begun) }

// granted records a lease that a worker was granted. Use change to record later events.
func (h *history) granted(worker int, g *grant) *leaseRecord {
	return h.lease(&leaseRecord{worker: worker, key: g.key, owner: g.owner, token: g.Token(), asked: h.at(g.before),
		granted: h.at(g.after), ttl: g.ttl, deadline: h.at(g.Deadline()), end: endAbandoned, shared: g.shared})
}

// grantedElsewhere records a lease whose grant another process has just reported. That process counts the deadline from
// a time after asked. The real deadline is therefore the recorded one or later.
func (h *history) grantedElsewhere(
	worker int, key, owner string, token uint64, ttl time.Duration, asked instant,
) *leaseRecord {
	return h.lease(&leaseRecord{worker: worker, key: key, owner: owner, token: token, asked: asked, granted: h.now(),
		ttl:      ttl,
		deadline: asked + ttl - backend.Margin(ttl), end: endAbandoned})
}

func (h *history) lease(l *leaseRecord) *leaseRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record.leases = append(h.record.leases, l)
	return l
}

// released records that a Release of l, called at called, has just returned nil.
func (h *history) released(l *leaseRecord, called instant) {
	over := h.now()
	h.change(func() { l.end, l.releaseCalled, l.releaseReturned = endReleased, called, over })
}

// change calls f, which changes a record, with the lock held.
func (h *history) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *history) attempt(a attemptRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record.attempts = append(h.record.attempts, a)
}

func (h *history) fault(f faultRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record.faults = append(h.record.faults, f)
}

// freeBy returns the instant by which everything on key must have ended.
func (h *history) freeBy(key string) instant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.record.freeBy(key, h.t.g)
}

// grants returns how many leases were granted.
func (h *history) grants() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.record.leases)
}
