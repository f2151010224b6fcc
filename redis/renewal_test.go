package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
)

// In a batch, each lease gets its own TTL and its own result, at every renewal, even if the keys of others are lost or
// replaced. A foreign key does not change.
func TestBatchOfAllSorts(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) { batchOfAllSorts(t, opened(t, ownDatabase(t).URL)) })
	t.Run("cluster", func(t *testing.T) { batchOfAllSorts(t, opened(t, "redis+cluster://"+cluster(t)[0].Addr)) })
}

func batchOfAllSorts(t *testing.T, b *Backend) {
	ctx := context.Background()
	const leases = 3*exchange.ScriptLeases + 7
	list := make([]backend.Renewal, leases)
	for i := range list {
		list[i] = backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("sort-", i), time.Minute)), TTL: time.Hour}
	}
	life := func(i int) *kit.Life { return list[i].Lease.(*kit.Life) }
	name := func(i int) string { return b.naming.lock(life(i).Key()) }
	renew := func(what string, want map[int]error) {
		t.Helper()
		begun := time.Now()
		for i, err := range b.RenewBatch(ctx, list) {
			if !errors.Is(err, want[i]) {
				t.Fatalf("%s: lease %d: %v, want %v", what, i, err, want[i])
			}
			if left := b.client.PTTL(ctx, name(i)).Val(); want[i] == nil &&
				(left > list[i].TTL || left < list[i].TTL-time.Second-time.Since(begun)) {
				t.Fatalf("%s: lease %d has %v left, want %v", what, i, left, list[i].TTL)
			}
		}
	}
	renew("the first", nil)
	renew("the second", nil)
	for i := range list {
		list[i].TTL = time.Duration(1+i%3) * 20 * time.Second // some longer, some shorter
	}
	renew("to other TTLs", nil)
	renew("to other TTLs again", nil)

	b.client.Del(ctx, name(0))
	stranger := fmt.Sprintf("%d:stranger", life(5).Token())
	b.client.Set(ctx, name(5), stranger, 77*time.Second)
	b.client.Set(ctx, name(70), "0:"+life(70).Owner(), 77*time.Second) // as if only reserved for it
	b.client.Del(ctx, name(leases-1))
	b.client.LPush(ctx, name(leases-1), "no string")
	lost := map[int]error{0: backend.ErrLost, 5: backend.ErrLost, 70: backend.ErrLost, leases - 1: backend.ErrLost}
	renew("of stolen keys", lost)
	if v, left := b.client.Get(ctx, name(5)).Val(), b.client.PTTL(ctx, name(5)).Val(); v != stranger ||
		left > 77*time.Second {
		t.Errorf("a stranger's key: %q for %v", v, left)
	}
	renew("after losses", lost)
}

// A detour is a go-redis hook that keeps back one request with a script, and reports a broken connection instead.
type detour struct {
	digest string
	armed  atomic.Bool
	args   []any  // of the request that was kept back
	then   func() // called when it has been kept back, if not nil
}

func (d *detour) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *detour) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == d.digest && d.armed.CompareAndSwap(true, false) {
			d.args = args
			if d.then != nil {
				d.then()
			}
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

func (d *detour) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// detoured opens a store on client, with a detour for the requests with a script.
func detoured(t *testing.T, client *redis.Client, script exchange.Script) (*Backend, *detour) {
	t.Helper()
	d := &detour{digest: script.Digest}
	client.AddHook(d)
	b, err := onClient(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, d
}

// arrivesLate lets the server receive the request that d has kept back, which is for ttl. The lease l then ends for its
// holder before the server ends it.
func (d *detour) arrivesLate(t *testing.T, server *redis.Client, name string, l backend.Lease, ttl time.Duration) {
	t.Helper()
	ctx := context.Background()
	if err := server.Do(ctx, d.args...).Err(); err != nil {
		t.Fatal(err)
	}
	left := server.PTTL(ctx, name).Val()
	if holder := time.Until(l.Deadline()); left > ttl || holder > left {
		t.Errorf("the lease lasts for %v for its holder, and for %v at the server", holder, left)
	}
}

// If the first attempt of a renewal gets no reply, and the second one does, the first may still reach the server after
// a longer renewal. The lease then ends for its holder before the server ends it.
func TestRepeatedRenewalArrivesLate(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	ctx := context.Background()
	const short, long = 5 * time.Second, time.Minute
	for _, mode := range []struct {
		name   string
		shared bool
	}{{"exclusive", false}, {"shared", true}} {
		for how, renew := range map[string]func(*Backend, backend.Request, backend.Lease) (backend.Lease, error){
			"Renew": func(_ *Backend, r backend.Request, l backend.Lease) (backend.Lease, error) {
				return l, l.Renew(ctx, r.TTL)
			},
			"RenewBatch": func(b *Backend, r backend.Request, l backend.Lease) (backend.Lease, error) {
				return l, b.RenewBatch(ctx, []backend.Renewal{{Lease: l, TTL: r.TTL}})[0]
			},
		} {
			t.Run(mode.name+" "+how, func(t *testing.T) {
				b, d := detoured(t, s.raw(t), renewScript)
				r := req(mode.name+how, long)
				r.Shared = mode.shared
				l := acquire(t, b, r)
				r.TTL = short
				d.armed.Store(true)
				l, err := renew(b, r, l)
				if err != nil || d.args == nil {
					t.Fatalf("a renewal whose first attempt got no reply: %v", err)
				}
				if err := l.Renew(ctx, long); err != nil {
					t.Fatal(err)
				}
				d.arrivesLate(t, s.raw(t), b.naming.lock(r.Key), l, short)
			})
		}
	}
}

// A Resume that arrives late, after another client has extended the lease, does not shorten the lease: the other client
// does not know of it.
func TestLateResumeShortensNothing(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	ctx := context.Background()
	const short, long = 5 * time.Second, time.Minute
	holder := opened(t, s.URL)
	for _, shared := range []bool{false, true} {
		b, d := detoured(t, s.raw(t), renewScript)
		r := req(fmt.Sprint("k", shared), long)
		r.Shared = shared
		l := acquire(t, holder, r)
		r.TTL = short
		d.armed.Store(true)
		if _, err := b.Resume(ctx, r); err != nil || d.args == nil {
			t.Fatalf("a Resume whose first attempt got no reply: %v", err)
		}
		if err := l.Renew(ctx, 2*long); err != nil {
			t.Fatal(err)
		}
		if err := s.raw(t).Do(ctx, d.args...).Err(); err != nil {
			t.Fatal(err)
		}
		if left := s.raw(t).PTTL(ctx, b.naming.lock(r.Key)).Val(); left < long {
			t.Errorf("shared %v: a late Resume has shortened the lease to %v", shared, left)
		}
		if _, err := b.Resume(ctx, r); err != nil {
			t.Errorf("shared %v: Resume after that: %v", shared, err)
		}
		if left := s.raw(t).PTTL(ctx, b.naming.lock(r.Key)).Val(); left > short {
			t.Errorf("shared %v: a Resume to %v left %v", shared, short, left)
		}
	}
}

// If the first attempt of a Resume gets no reply, it may still reach the server after a later renewal, also if the
// second attempt is refused because another client has extended the lease meanwhile. The lease then ends for its holder
// before the server ends it.
func TestRefusedResumeArrivesLate(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	ctx := context.Background()
	const short, long = 5 * time.Second, time.Hour
	b, d := detoured(t, s.raw(t), renewScript)
	r := req("k", long)
	first := acquire(t, opened(t, s.URL), r)
	d.then = func() {
		if err := first.Renew(ctx, 2*long); err != nil {
			t.Error(err)
		}
	}
	r.TTL = short
	d.armed.Store(true)
	l, err := b.Resume(ctx, r)
	if err != nil || d.args == nil {
		t.Fatalf("a Resume whose first attempt got no reply: %v", err)
	}
	if err := l.Renew(ctx, long/2); err != nil {
		t.Fatal(err)
	}
	d.arrivesLate(t, s.raw(t), b.naming.lock(r.Key), l, short)
}

// If a waiter is cancelled, one of whose requests got no reply, that request may arrive after the waiter has been
// removed from the queue. The store then removes it again.
func TestLateRequestOfCancelledWaiter(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	admin := s.raw(t)
	holder := opened(t, s.URL)
	b, d := detoured(t, s.raw(t), acquireScript)
	l := acquire(t, holder, req("k", time.Hour))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.armed.Store(true)
	done := startAcquire(ctx, b, waiting("k", time.Hour))
	storetest.Queued(t, holder, "k", 1)
	begun := time.Now()
	cancel()
	<-done
	queue := b.naming.names("k").queue
	waiters := func() int64 { return admin.ZCard(context.Background(), queue).Val() }
	until(t, soon, "the waiter is removed", func() bool { return waiters() == 0 })
	d.args[len(d.args)-1] = "1" // to queue
	if err := admin.Do(context.Background(), d.args...).Err(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 900*time.Millisecond {
		t.Skipf("the request arrived after %v: by then the cleanup may have ended", took)
	}
	until(t, soon, "the waiter is removed again", func() bool { return waiters() == 0 })
	release(t, l)
}
