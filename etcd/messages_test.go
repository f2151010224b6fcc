package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/storetest"
)

// A wire counts what a client sends, by the name of the method: requests, and messages on streams.
type wire struct {
	mu    sync.Mutex
	count map[string]int
}

func (w *wire) add(method string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[method[strings.LastIndexByte(method, '/')+1:]]++
}

// take returns the counts since the last call, and their sum.
func (w *wire) take() (counts map[string]int, sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts, w.count = w.count, make(map[string]int)
	for _, n := range counts {
		sum += n
	}
	return counts, sum
}

func (w *wire) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	w.add(method)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (w *wire) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	return &countedStream{s, w, method}, err
}

type countedStream struct {
	grpc.ClientStream
	wire   *wire
	method string
}

func (s *countedStream) SendMsg(m any) error {
	s.wire.add(s.method)
	return s.ClientStream.SendMsg(m)
}

// wired returns a Backend whose client counts what it sends.
func wired(t testing.TB, s site) (*Backend, *wire) {
	t.Helper()
	w := &wire{count: make(map[string]int)}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(w.unary), grpc.WithChainStreamInterceptor(w.stream),
		}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := onClient(c, s.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		_ = c.Close()
	})
	return b, w
}

func registered(t testing.TB) driver.RoundTrips {
	t.Helper()
	for _, d := range driver.Registered() {
		if d.Name == "etcd" {
			return d.RoundTrips
		}
	}
	t.Fatal("not registered")
	panic("unreachable")
}

// warm fills the pool with leases for ttl, and opens the stream for renewals.
func warm(t testing.TB, b *Backend, ttl time.Duration) {
	t.Helper()
	l := acquire(t, b, req("warm", ttl))
	if err := l.Renew(t.Context(), ttl); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	until(t, 10*soon, "the next lease is there", func() bool {
		if b.pool.ready(b.guarantees.Round(ttl)) > readyPerTTL {
			return true
		}
		// If the next lease could not be granted in advance, the next acquire requests it again.
		release(t, acquire(t, b, req("warm", ttl)))
		return false
	})
}

// ready returns how many leases of a class are in the pool.
func (p *pool) ready(class time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle[class])
}

// Without contention, an acquire with its token, a renewal and a release take one request each, as registered. The same
// holds if the acquire may wait, and for a shared lease beside another. A renewal is one message on a stream.
func TestRequestsUncontended(t *testing.T) {
	t.Parallel()
	s := shared(t)
	want := registered(t)
	type mode struct{ wait, shared bool }
	modes := []mode{{false, false}, {true, false}, {false, true}, {true, true}}
	done := make(map[mode]bool)
	const ttl, rounds = 20 * time.Second, 20
	// One attempt must succeed. If the machine stands still, requests are repeated, and keys that are held for more than
	// 100 ms are watched and may be read.
	const attempts = 3
	for n := range len(modes) * attempts {
		m, last := modes[n/attempts], n%attempts == attempts-1
		if done[m] {
			continue
		}
		b, w := wired(t, s)
		other := opened(t, s.URL())
		warm(t, b, ttl)
		total := map[string]int{}
		measure := func(op string, f func()) {
			w.take()
			f()
			counts, sum := w.take()
			sum -= counts["Watch"] // a key that is held for 100 ms is watched, for example if the machine stands still
			total[op] += sum
			if sum != 1 {
				t.Logf("%s: %v", op, counts)
			}
		}
		for i := range rounds {
			r := req(fmt.Sprint("k", i), ttl)
			r.Wait, r.Shared = m.wait, m.shared
			if m.shared {
				beside := acquire(t, other, r)
				defer release(t, beside)
				r.Owner = backend.NewOwner()
			}
			var l backend.Lease
			measure("acquire", func() { l = acquire(t, b, r) })
			if l.Token() == 0 {
				t.Fatal("no token")
			}
			measure("renew", func() {
				if err := l.Renew(t.Context(), ttl); err != nil {
					t.Fatal(err)
				}
			})
			measure("release", func() { release(t, l) })
		}
		done[m] = true
		for op, registered := range map[string]string{"acquire": want.Acquire, "renew": want.Renew, "release": want.Release} {
			// A pooled lease that is a second old is renewed together with the acquire. This happens on a busy machine.
			const spared = 2
			if got := float64(total[op]) / rounds; strconv.Itoa(int(got)) != registered || total[op] > rounds+spared {
				done[m] = false
				if last {
					t.Errorf("%+v: %s: %.2f requests, registered are %s", m, op, got, registered)
				}
			}
		}
		t.Logf("%+v: %v requests in %d rounds", m, total, rounds)
	}
}

// An acquire after a long pause takes one round trip, too: the pooled lease is renewed while the transaction is under
// way.
func TestRequestsAfterAPause(t *testing.T) {
	t.Parallel()
	b, w := wired(t, shared(t))
	const ttl = 20 * time.Second
	warm(t, b, ttl)
	time.Sleep(extraTTL + 100*time.Millisecond) // sleeps: the pooled lease must need a renewal
	w.take()
	l := acquire(t, b, req("k", ttl))
	counts, _ := w.take()
	delete(counts, "Watch") // a key that is held for 100 ms is watched
	if counts["Txn"] != 1 || counts["LeaseKeepAlive"] != 1 || len(counts) != 2 {
		t.Errorf("an acquire after a pause: %v, want a transaction and a renewal", counts)
	}
	release(t, l)
}

// E7. A failed try is one request. It leaves no key, and no leases except those in the pool, which Close revokes.
func TestFailedTriesLeaveNothing(t *testing.T) {
	t.Parallel()
	s := private(t)
	c := raw(t, s.Addr)
	b, w := wired(t, s)
	const ttl, tries = 20 * time.Second, 1000
	l := acquire(t, b, req("k", time.Hour)) // the tries may take longer than ttl
	warm(t, b, ttl)
	w.take()
	begun := time.Now()
	for range tries {
		if _, err := b.Acquire(t.Context(), req("k", ttl)); err == nil {
			t.Fatal("a second owner")
		}
	}
	counts, _ := w.take()
	// The holder's key is read once, when its watch begins. A try with a pooled lease older than a second also renews that
	// lease. A try that is not answered in time is repeated, and its lease is not reused.
	const repeated = tries / 100
	renewals := int(2*time.Since(begun)/extraTTL) + tries/50
	if n := counts["Txn"]; n < tries || n > tries+1+repeated || counts["LeaseGrant"] > 2*repeated || counts["Put"] > 0 ||
		counts["LeaseKeepAlive"] > renewals {
		t.Errorf("%d failed tries sent %v", tries, counts)
	}
	if keys := s.countKeys(t, c); keys != 1 {
		t.Errorf("%d keys, want the holder's", keys)
	}
	const most = 1 + readyPerTTL + 1 + readyPerTTL + 1 // after the leases of repeated tries are revoked
	until(t, soon, fmt.Sprintf("there are the holder's lease and the pool's of two TTLs, %d at most", most), func() bool {
		return countLeases(t, c) <= most
	})
	release(t, l)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, soon, "all leases are revoked after Close", func() bool { return countLeases(t, c) == 0 })
}

func (s site) countKeys(t testing.TB, c *clientv3.Client) int {
	t.Helper()
	resp, err := c.Get(context.Background(), s.namespace+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return int(resp.Count)
}

func countLeases(t testing.TB, c *clientv3.Client) int {
	t.Helper()
	resp, err := c.Leases(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Leases)
}

// A hand-off among many waiters takes at most 10 messages, because it wakes no waiter but the next.
func TestRequestsPerHandOff(t *testing.T) {
	// Not parallel, because renewals on a slow machine count. So the best of three measurements counts.
	const most = 10 // 2 transactions, a read, a delete; a watch and its end; grants at the beginning
	storetest.ThreeTries(t, func() error {
		if per := requestsPerHandOff(t); per > most {
			return fmt.Errorf("%.2f messages per hand-off, want at most %d", per, most)
		}
		return nil
	})
}

func requestsPerHandOff(t *testing.T) float64 {
	t.Helper()
	const processes, rounds = 64, 4
	s := shared(t)
	stores, wires := make([]*Backend, processes), make([]*wire, processes)
	for i := range stores {
		stores[i], wires[i] = wired(t, s)
	}
	gate := acquire(t, stores[0], req("k", 20*time.Second))
	var all, arrived sync.WaitGroup
	begin := make(chan struct{})
	var mu sync.Mutex
	var released time.Time
	var latency time.Duration
	cycle := func(i int, last time.Duration) {
		l, err := stores[i].Acquire(context.Background(), waiting("k", 20*time.Second))
		now := time.Now()
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		if last >= 0 && !released.IsZero() {
			latency += now.Sub(released)
		}
		released = time.Now()
		mu.Unlock()
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for i := range stores {
		arrived.Add(1)
		all.Go(func() {
			cycle(i, -1)
			arrived.Done()
			<-begin
			for range rounds {
				cycle(i, 0)
			}
		})
	}
	release(t, gate)
	arrived.Wait()
	for _, w := range wires {
		w.take()
	}
	released = time.Time{}
	begun := time.Now()
	close(begin)
	all.Wait()
	took := time.Since(begun)
	total, n := map[string]int{}, 0
	for _, w := range wires {
		counts, sum := w.take()
		n += sum
		for method, c := range counts {
			total[method] += c
		}
	}
	const handOffs = processes * rounds
	per := float64(n) / handOffs
	t.Logf("%d waiters: %.2f messages per hand-off %v, %.0f hand-offs/s, %v from release to grant", processes, per, total,
		handOffs/took.Seconds(), (latency / handOffs).Round(10*time.Microsecond))
	return per
}
