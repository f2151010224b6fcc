package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/bench"
	"github.com/anylock/lock/internal/servers"
)

// A toy is a store in memory whose faults are known.
type toy struct {
	mu     sync.Mutex
	opened int
	open   int
	keys   map[string]chan struct{}
	fails  error // of every Acquire
	order  *[]string
}

func newToy() *toy { return &toy{keys: make(map[string]chan struct{})} }

func (s *toy) store(name string) bench.Store {
	return bench.Store{Name: name, About: "a toy <& co>",
		Open: func(context.Context, time.Duration) (bench.Client, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.opened++
			s.open++
			if s.order != nil {
				*s.order = append(*s.order, name)
			}
			return toyClient{s}, nil
		}}
}

func (s *toy) key(key string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key] == nil {
		s.keys[key] = make(chan struct{}, 1)
	}
	return s.keys[key]
}

type toyClient struct{ *toy }

func (c toyClient) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	if c.fails != nil {
		return nil, c.fails
	}
	k := c.key(key)
	select {
	case k <- struct{}{}:
		return toyLease(k), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c toyClient) Try(_ context.Context, key string) (bench.Lease, error) {
	k := c.key(key)
	select {
	case k <- struct{}{}:
		return toyLease(k), nil
	default:
		return nil, bench.ErrBusy
	}
}

func (c toyClient) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.toy.open--
	return nil
}

type toyLease chan struct{}

func (l toyLease) Release(context.Context) error { <-l; return nil }

func quick(stores ...bench.Store) bench.Options {
	return bench.Options{Stores: stores, Rounds: 2, Duration: 5 * time.Millisecond, Held: 50, Waiters: []int{1, 20}}
}

func measured(t *testing.T, o bench.Options) *bench.Report {
	t.Helper()
	b, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every scenario runs on every store, and every client is closed.
func TestRun(t *testing.T) {
	t.Parallel()
	x, y := newToy(), newToy()
	var seen []bench.Progress
	o := quick(x.store("x"), y.store("y"))
	o.Duration = 50 * time.Millisecond // in which something is done on a busy machine too
	o.Observe = func(p bench.Progress) { seen = append(seen, p) }
	b := measured(t, o)
	for _, sc := range bench.Scenarios(o) {
		for _, store := range []string{"x", "y"} {
			r := b.Result(sc.Name, store)
			switch {
			case r == nil:
				t.Errorf("%s was not run on %s", sc.Name, store)
			case sc.Name == "recovery":
				if r.Skipped == "" {
					t.Errorf("recovery ran on a store that no other process can reach")
				}
			case strings.HasPrefix(sc.Name, "readers"), sc.Name == "mixed":
				if r.Skipped != bench.ErrUnsupported.Error() {
					t.Errorf("%s ran on a store without shared leases", sc.Name)
				}
			case r.Problem != "" || r.Skipped != "":
				t.Errorf("%s on %s: %q, %q", sc.Name, store, r.Problem, r.Skipped)
			case sc.Name == "held":
			default:
				if f := r.Figures[sc.Main.Name]; f.Median <= 0 && sc.Name != "hand-off" || f.Low > f.Median || f.Median > f.High {
					t.Errorf("%s on %s: %s %+v", sc.Name, store, sc.Main.Name, f)
				}
			}
		}
	}
	if x.open != 0 || y.open != 0 {
		t.Errorf("%d and %d clients were left open", x.open, y.open)
	}
	for i, p := range seen {
		if p.Done != i || p.Total != len(seen)-1 {
			t.Errorf("step %d is reported as %+v", i, p)
		}
	}
}

// Stores take turns: in each round all of them, beginning with another one.
func TestRoundsTakeTurns(t *testing.T) {
	t.Parallel()
	var order []string
	x, y, z := newToy(), newToy(), newToy()
	x.order, y.order, z.order = &order, &order, &order
	o := quick(x.store("x"), y.store("y"), z.store("z"))
	o.Rounds, o.Scenarios = 3, []string{"serial"}
	measured(t, o)
	if got, want := strings.Join(order, ""), "xyzyzxzxy"; got != want {
		t.Errorf("stores were opened as %s, want %s", got, want)
	}
}

// A store that forgets a waiter is reported as failed; the run continues.
func TestParkedWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newToy().store("forgetful")
		open := s.Open
		s.Open = func(ctx context.Context, ttl time.Duration) (bench.Client, error) {
			c, err := open(ctx, ttl)
			return forgetful{c}, err
		}
		o := quick(s)
		o.Scenarios = []string{"hand-off", "waiters"}
		b := measured(t, o)
		for _, scenario := range []string{"hand-off", "waiters-20"} {
			if r := b.Result(scenario, "forgetful"); !strings.Contains(r.Problem, "a free key") {
				t.Errorf("%s: the result is %+v", scenario, r)
			}
		}
	})
}

// A forgetful client never wakes who waits.
type forgetful struct{ bench.Client }

func (c forgetful) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	l, err := c.Try(ctx, key)
	if errors.Is(err, bench.ErrBusy) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l, err
}

// A store that fails is reported as failed; the others continue.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	good, bad := newToy(), newToy()
	bad.fails = errors.New("no such luck")
	o := quick(bad.store("bad"), good.store("good"))
	o.Scenarios = []string{"serial"}
	b := measured(t, o)
	if r := b.Result("serial", "bad"); !strings.Contains(r.Problem, "no such luck") || len(r.Figures) != 0 {
		t.Errorf("the failing store's result is %+v", r)
	}
	if bad.opened != 1 {
		t.Errorf("a store that failed was tried %d times", bad.opened)
	}
	if r := b.Result("serial", "good"); len(r.Rounds) != o.Rounds {
		t.Errorf("the good store has %d rounds, want %d", len(r.Rounds), o.Rounds)
	}
	var text strings.Builder
	if err := b.WriteText(&text); err != nil || !strings.Contains(text.String(), "failed: no such luck") {
		t.Errorf("error %v, text:\n%s", err, &text)
	}
}

// An interrupted run reports what it has.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := quick(newToy().store("x"))
	o.Observe = func(p bench.Progress) {
		if p.Scenario == "distinct" {
			cancel()
		}
	}
	b, err := bench.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Figure("serial", "x", bench.Rate); !ok || !b.Interrupted {
		t.Errorf("interrupted %v, figure of the scenario before: %v", b.Interrupted, ok)
	}
	if r := b.Result("distinct", "x"); r != nil {
		t.Errorf("a result of a round that was cut off: %+v", r)
	}
	var text, page strings.Builder
	if err := errors.Join(b.WriteText(&text), b.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{text.String(), page.String()} {
		if !strings.Contains(shown, "interrupted: what was") || strings.Contains(shown, "distinct") {
			t.Errorf("an interrupted run, with what was not measured, is shown as\n%s", shown)
		}
	}
}

// A run that is interrupted at its beginning says that there is nothing.
func TestInterruptedAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, err := bench.Run(ctx, quick(newToy().store("x")))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := b.WriteText(&text); err != nil || !strings.Contains(text.String(), "before anything was measured") {
		t.Errorf("error %v, text:\n%s", err, &text)
	}
}

// A key that is held for long does not keep a run from being interrupted.
func TestInterruptedHold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o := quick(newToy().store("x"))
	o.Scenarios, o.Hold = []string{"hot-local"}, time.Hour
	ended := make(chan *bench.Report, 1)
	go func() {
		b, _ := bench.Run(ctx, o)
		ended <- b
	}()
	select {
	case b := <-ended:
		if !b.Interrupted {
			t.Errorf("%+v is not interrupted", b)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("not interrupted within 30 s")
	}
}

// A key that is held for longer than a round was to last is not counted as if it had been released.
func TestLongHold(t *testing.T) {
	t.Parallel()
	o := quick(newToy().store("x"))
	o.Scenarios, o.Hold, o.Rounds = []string{"hot-local", "hot-clients"}, 20*time.Millisecond, 1
	b := measured(t, o)
	const most = 1.1 / 0.02
	for _, scenario := range o.Scenarios {
		if f, ok := b.Figure(scenario, "x", bench.Rate); !ok || f.Median > most {
			t.Errorf("%s: a key that is held for 20 ms is granted %v times a second", scenario, f.Median)
		}
		if r := b.Result(scenario, "x"); r.Note != "rounds of 400ms, too short to measure fairness" {
			t.Errorf("%s: note %q", scenario, r.Note)
		}
	}
}

// Asking a server for its count is bounded, and its cost is not the store's. Not parallel: allocations are counted for
// the process.
func TestRequestsCostNothing(t *testing.T) {
	const made = 1 << 20
	s := newToy().store("x")
	s.Requests = func(ctx context.Context) (int64, error) {
		if _, ok := ctx.Deadline(); !ok {
			return 0, errors.New("no deadline")
		}
		garbage = make([]*[]byte, made)
		for i := range garbage {
			garbage[i] = new([]byte)
		}
		return 0, nil
	}
	defer func() { garbage = nil }()
	o := quick(s)
	o.Scenarios, o.Hold, o.Duration = []string{"hot-clients", "try", "held"}, time.Millisecond, 30*time.Millisecond
	b := measured(t, o)
	for _, scenario := range o.Scenarios {
		if r := b.Result(scenario, "x"); r.Problem != "" {
			t.Errorf("%s: %s", scenario, r.Problem)
		}
	}
	if f, ok := b.Figure("hot-clients", "x", bench.Allocs); !ok || f.High > made/100 {
		t.Errorf("allocations %+v, %v", f, ok)
	}
}

var garbage []*[]byte // is there so that the compiler makes it

func TestBadOptions(t *testing.T) {
	t.Parallel()
	x := newToy().store("x")
	for _, o := range []bench.Options{
		{}, {Stores: []bench.Store{x, x}}, {Stores: []bench.Store{x}, Rounds: -1},
		{Stores: []bench.Store{x}, Scenarios: []string{"nosuch"}},
	} {
		if _, err := bench.Run(t.Context(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// The report is the same after JSON, and every round is a line for benchstat.
func TestFormats(t *testing.T) {
	t.Parallel()
	o := quick(newToy().store("x"), newToy().store("other store"))
	b := measured(t, o)
	var text, again, gobench bytes.Buffer
	if err := b.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	read, err := bench.ReadJSON(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := read.WriteJSON(&again); err != nil || !bytes.Equal(text.Bytes(), again.Bytes()) {
		t.Errorf("error %v; JSON differs after reading", err)
	}
	if err := b.WriteGoBench(&gobench); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^BenchmarkStores/scenario=[a-z0-9-]+/store=\S+ 1( [0-9.e+-]+ [a-z0-9/-]+)+$`)
	rounds := 0
	for _, l := range strings.Split(strings.TrimSpace(gobench.String()), "\n")[2:] {
		if rounds++; !line.MatchString(l) {
			t.Errorf("not a line of a benchmark: %s", l)
		}
	}
	want := 0
	for _, r := range b.Results {
		want += len(r.Rounds)
	}
	if rounds != want || want == 0 {
		t.Errorf("%d lines, want %d", rounds, want)
	}
}

// The holder in another process is killed, and its key is free after the TTL.
func TestRecovery(t *testing.T) {
	s, err := bench.URL(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := measured(t, bench.Options{Stores: []bench.Store{s}, Scenarios: []string{"recovery"}, Rounds: 1})
	f, ok := b.Figure("recovery", "file", bench.P50)
	if !ok || f.Median < 0.1 || f.Median > 10 {
		t.Errorf("recovered after %v s; %+v", f.Median, b.Result("recovery", "file"))
	}
}

func ExampleRun() {
	ctx := context.Background()
	memory, err := bench.URL(ctx, "memory://example")
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := bench.Run(ctx, bench.Options{
		Stores: []bench.Store{memory}, Scenarios: []string{"serial"}, Rounds: 3, Duration: 20 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rate, _ := report.Figure("serial", "memory", bench.Rate)
	fmt.Println(rate.Median > 1000)
	// Output: true
}

// A crowd is selected by its size, and all crowds by their name.
func TestCrowds(t *testing.T) {
	t.Parallel()
	o := quick(newToy().store("x"))
	o.Rounds = 1
	for _, c := range []struct{ ask, want string }{
		{"waiters", "waiters-1 waiters-20"}, {"waiters-7", "waiters-7"},
		{"waiters-7 serial waiters", "serial waiters-1 waiters-7 waiters-20"},
		{"distinct-3 distinct-8 hot-single", "hot-single distinct-3 distinct-8"},
	} {
		o.Scenarios = strings.Fields(c.ask)
		var names []string
		for _, r := range measured(t, o).Results {
			names = append(names, r.Scenario)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%q runs %q, want %q", c.ask, got, c.want)
		}
	}
	for _, bad := range []string{"waiters-0", "waiters-x", "waiters-", "serial-1", "distinct-0"} {
		o.Scenarios = []string{bad}
		if err := o.Validate(); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A round that is too short reports neither fairness nor the slowest of a hundred, and its note says why.
func TestShortRoundsReportLess(t *testing.T) {
	t.Parallel()
	o := quick(newToy().store("x"))
	o.Scenarios, o.Rounds, o.Clients = []string{"hot-single"}, 1, 2
	for hold, long := range map[time.Duration]bool{5 * time.Millisecond: false, -1: true} {
		if o.Hold, o.Duration = hold, 50*time.Millisecond; long {
			o.Duration = time.Second // a machine that stands still leaves time enough
		}
		b := measured(t, o)
		_, fair := b.Figure("hot-single", "x", bench.Jain)
		_, slowest := b.Figure("hot-single", "x", bench.P99)
		r := b.Result("hot-single", "x")
		if noted := strings.Contains(r.Note, "too short to measure fairness"); slowest != long || fair == noted {
			t.Errorf("held for %v: fairness %v, p99 %v, note %q", hold, fair, slowest, r.Note)
		}
	}
}

// The report names the version of each server.
func TestServersAreNamed(t *testing.T) {
	t.Parallel()
	for want, url := range map[string]string{
		"Redis ":     "redis://" + servers.Redis(t).Addr,
		"memcached ": "memcached://" + servers.Memcached(t).Addr,
		"etcd ":      "etcd://" + servers.Etcd(t).Addr,
		"ZooKeeper ": "zookeeper://" + servers.ZooKeeper(t).Addr,
		"Postgres ":  servers.Postgres(t).PostgresURL() + "&lock_max_leases=4",
	} {
		s, err := bench.URL(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if _, version, _ := strings.Cut(s.About, ", "+want); !regexp.MustCompile(`^\d+\.\d+`).MatchString(version) {
			t.Errorf("%s", s.About)
		}
	}
}
