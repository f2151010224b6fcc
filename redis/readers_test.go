package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

// shared returns r as a request for a shared lease.
func shared(r backend.Request) backend.Request {
	r.Shared = true
	return r
}

func inspect(t *testing.T, b *Backend, key string) backend.Holder {
	t.Helper()
	h, err := b.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// refused fails the test unless r is refused, and returns the holder.
func refused(t *testing.T, b *Backend, r backend.Request) backend.Holder {
	t.Helper()
	_, err := b.Acquire(context.Background(), r)
	h, ok := held1(err)
	if !ok || !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("acquire of a held key: %v, want held", err)
	}
	return h.Holder
}

func TestReadersShareAndExclude(t *testing.T) {
	t.Parallel()
	b := opened(t, ownDatabase(t).URL)
	w := acquire(t, b, req("k", time.Minute))
	if h := refused(t, b, shared(req("k", time.Minute))); h.Shared != 0 || h.Token != w.Token() {
		t.Errorf("a reader behind a writer: held by %+v", h)
	}
	release(t, w)
	long, short := shared(req("k", time.Hour)), shared(req("k", time.Minute))
	l, s := acquire(t, b, long), acquire(t, b, short)
	if l.Token() <= w.Token() || s.Token() <= w.Token() {
		t.Errorf("tokens %d and %d of readers after %d of a writer", l.Token(), s.Token(), w.Token())
	}
	for what, h := range map[string]backend.Holder{"inspect": inspect(t, b, "k"), "refusal": refused(t, b, req("k",
		time.Minute))} {
		if h.Owner != long.Owner || h.Token != l.Token() || h.Shared != 2 || h.TTL > time.Hour || h.TTL < time.Hour-soon {
			t.Errorf("%s: %+v, want 2 readers and %s with %d", what, h, long.Owner, l.Token())
		}
	}
	if keys, err := b.List(context.Background(), ""); err != nil || fmt.Sprint(keys) != "[k]" {
		t.Errorf("list: %q, %v", keys, err)
	}
	release(t, l)
	if h := inspect(t, b, "k"); h.Owner != short.Owner || h.Shared != 1 || h.TTL > time.Minute {
		t.Errorf("after the release of one of two readers: %+v", h)
	}
	release(t, s)
	if err := s.Release(context.Background()); err != nil {
		t.Errorf("second release: %v", err)
	}
	w2 := acquire(t, b, req("k", time.Minute))
	if w2.Token() <= max(l.Token(), s.Token()) {
		t.Errorf("token %d of a writer after %d and %d of readers", w2.Token(), l.Token(), s.Token())
	}
	release(t, w2)
}

// With readers and writers on several clients, a writer is always the only holder, and tokens exceed those of earlier
// writers.
func TestReadersAndWritersUnderContention(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	const workers, rounds = 8, 40
	var readers, writers, together atomic.Int32
	var last atomic.Uint64 // the highest token of a writer
	var wg sync.WaitGroup
	for w := range workers {
		b := opened(t, s.URL)
		wg.Go(func() {
			for range rounds {
				r := waiting("k", time.Minute)
				r.Shared = rand.IntN(4) > 0
				l, err := b.Acquire(context.Background(), r)
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				if r.Shared {
					together.Store(max(together.Load(), readers.Add(1)))
				} else if writers.Add(1) != 1 || readers.Load() != 0 {
					t.Error("a writer beside another holder")
				}
				if l.Token() <= last.Load() {
					t.Error("a token is not above that of a writer before")
				}
				if r.Shared && writers.Load() != 0 {
					t.Error("a reader beside a writer")
				}
				time.Sleep(rand.N(time.Millisecond)) // sleeps: the work under the lock
				if r.Shared {
					readers.Add(-1)
				} else {
					last.Store(l.Token())
					writers.Add(-1)
				}
				release(t, l)
			}
		})
	}
	wg.Wait()
	if together.Load() < 2 {
		t.Error("no two readers were ever together")
	}
	if h := inspect(t, opened(t, s.URL), "k"); h.Held() || h.Waiters != 0 {
		t.Errorf("at the end: %+v", h)
	}
}

// The end of one reader's lease does not change another reader's lease, and an expired lease is never revived.
func TestReadersEndAlone(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	ctx := context.Background()
	dead := acquire(t, b, shared(req("k", soon/10)))
	live := acquire(t, b, shared(req("k", time.Hour)))
	<-dead.Lost()
	until(t, soon, "the dead reader is not counted", func() bool { return inspect(t, b, "k").Shared == 1 })
	if err := live.Renew(ctx, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	errs := b.RenewBatch(ctx, []backend.Renewal{{Lease: dead, TTL: time.Minute}, {Lease: live, TTL: time.Minute}})
	if !errors.Is(errs[0], backend.ErrLost) || errs[1] != nil {
		t.Errorf("renewals of a dead and a live reader: %v", errs)
	}
	if left := s.raw(t).PTTL(ctx, b.naming.lock("k")).Val(); left > time.Minute || left < time.Minute-soon {
		t.Errorf("the key has %v left, the only reader 1m", left)
	}
	release(t, live)
	if h := inspect(t, b, "k"); h.Held() {
		t.Errorf("after the last reader: %+v", h)
	}
}

// The server ends each reader by its own score, even if other readers keep the key. No renewal revives an ended reader,
// whoever holds the key by then.
func TestReadersAreNeverRevived(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	c, ctx := s.raw(t), context.Background()
	r := shared(req("k", time.Hour))
	l := acquire(t, b, r)
	member, lock := lockValue(l.Token(), r.Owner), b.naming.lock("k")
	lost := func(when string) {
		t.Helper()
		v, _, err := b.eval(ctx, renewalOf(b, "k", member))
		if err != nil || !errors.Is(renewErrors(exchange.Result{V: v}, 1)[0], backend.ErrLost) {
			t.Errorf("%s: renewal: %v, %v, want lost", when, v, err)
		}
	}
	other := acquire(t, b, shared(req("k", time.Hour)))
	score := c.ZScore(ctx, lock, member).Val()
	c.ZIncrBy(ctx, lock, float64(-time.Hour.Milliseconds()), member) // as if an hour had passed
	if now := c.ZScore(ctx, lock, member).Val(); now >= score {
		t.Fatal("the score is as before")
	}
	lost("ended beside another")
	if removed, _, err := b.release(ctx, b.naming.names("k"), member, true); removed || err != nil {
		t.Errorf("release of an ended reader: %v, %v, want nothing removed", removed, err)
	}
	c.Del(ctx, lock)
	lost("of a key that was deleted")
	w := acquire(t, b, req("k", time.Hour))
	lost("of a writer's key")
	if err := other.Release(ctx); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release by an evicted reader: %v", err)
	}
	if h := inspect(t, b, "k"); h.Token != w.Token() || h.Shared != 0 {
		t.Errorf("a writer's key after stale readers: %+v", h)
	}
	release(t, w)
	next := acquire(t, b, shared(req("k", time.Hour)))
	lost("after readers that came later")
	release(t, next)
	c.LPush(ctx, lock, "foreign")
	lost("of a foreign key")
}

// A batch renews exclusive and shared leases, including several readers of one key, each to its own TTL.
func TestBatchOfBothModes(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	var list []backend.Renewal
	for i := range 100 {
		r := req(fmt.Sprint("k", i/4), time.Minute)
		if r.Shared = i%8 >= 4; !r.Shared {
			r.Key = fmt.Sprint("w", i)
		}
		list = append(list, backend.Renewal{Lease: acquire(t, b, r), TTL: time.Duration(1+i%4) * time.Hour})
	}
	for i, err := range b.RenewBatch(context.Background(), list) {
		if err != nil {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	if h := inspect(t, b, "k1"); h.Shared != 4 || h.Token != list[7].Lease.Token() || h.TTL < 4*time.Hour-soon {
		t.Errorf("readers after the batch: %+v", h)
	}
	if left := s.raw(t).PTTL(context.Background(), b.naming.lock("k1")).Val(); left < 4*time.Hour-soon {
		t.Errorf("the key ends in %v, its last reader in 4h", left)
	}
}

// After a lost reply, a reader still has exactly one lease, and no loss is reported.
func TestLostRepliesOfReaders(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	ctx := context.Background()
	other := acquire(t, b, shared(req("k", time.Hour)))
	for range 5 {
		r := shared(req("k", time.Minute))
		release(t, acquire(t, b, shared(req("warm", time.Minute))))
		lost := p.LoseReply()
		l := acquire(t, b, r)
		<-lost
		if h, err := b.inspect(ctx, "k", r.Owner); err != nil || h.Owner != r.Owner || h.Token != l.Token() || h.Shared != 2 {
			t.Fatalf("after a lost reply: %+v, %v, want 2 readers and the token %d", h, err, l.Token())
		}
		lost = p.LoseReply()
		if err := l.Renew(ctx, 2*time.Minute); err != nil {
			t.Fatalf("renew whose reply was lost: %v", err)
		}
		<-lost
		lost = p.LoseReply()
		release(t, l)
		<-lost
		until(t, soon, "one reader is left", func() bool { return inspect(t, b, "k").Shared == 1 })
	}
	release(t, other)
}

// Without contention, an acquire, a renewal and a release by a reader take one request each, and at most 30 server
// commands together.
func TestCommandsOfReaders(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	admin := redistest.Raw(t, s.Addr)
	b := opened(t, "redis://"+s.Addr)
	round := func() {
		l := acquire(t, b, shared(waiting("k", time.Minute)))
		if err := l.Renew(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		release(t, l)
	}
	round()
	for others := range 2 {
		const rounds, most = 10, 30
		before := redistest.Commands(t, admin)
		for range rounds {
			round()
		}
		diff, sum := redistest.Since(before, redistest.Commands(t, admin))
		if diff["evalsha"] != 3*rounds || diff["eval"] != 0 || sum > most*rounds {
			t.Errorf("beside %d readers: %v for %d rounds, want 3 evalsha each and at most %d commands", others, diff,
				rounds, most)
		}
		t.Logf("beside %d readers: %.1f commands a round: %v", others, float64(sum)/rounds, diff)
		acquire(t, b, shared(req("k", time.Hour)))
	}
}

// Break and Resume affect the lease of one reader only.
func TestBreakAndResumeOfReaders(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	a, b := opened(t, s.URL), opened(t, s.URL)
	ctx := context.Background()
	r := shared(req("k", time.Minute))
	first, second := acquire(t, a, r), acquire(t, a, shared(req("k", time.Hour)))
	exclusive := r
	exclusive.Shared = false
	if _, err := b.Resume(ctx, exclusive); !errors.Is(err, backend.ErrLost) {
		t.Errorf("resume of a shared lease as an exclusive one: %v", err)
	}
	l, err := b.Resume(ctx, r)
	if err != nil || l.Token() != first.Token() {
		t.Fatalf("resume: %v, want the token %d", err, first.Token())
	}
	if err := l.Renew(ctx, time.Minute); err != nil {
		t.Errorf("renewal of a resumed lease: %v", err)
	}
	if err := b.Break(ctx, "k", "nobody"); !errors.Is(err, backend.ErrLost) {
		t.Errorf("break of an owner that has no lease: %v", err)
	}
	if err := b.Break(ctx, "k", r.Owner); err != nil {
		t.Errorf("break: %v", err)
	}
	if err := l.Renew(ctx, time.Minute); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal after the break: %v", err)
	}
	if err := second.Renew(ctx, time.Hour); err != nil {
		t.Errorf("renewal of the other reader: %v", err)
	}
	release(t, second)
}

// On a full server, readers are granted, renewed, queued and admitted.
func TestFullServerWithReaders(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	b := opened(t, "redis://"+s.Addr)
	l := acquire(t, b, shared(req("k", time.Minute)))
	done := queueUp(t, b, waiting("k", time.Minute), 1)
	defer redistest.Fill(t, s.Addr)()
	errs := b.RenewBatch(context.Background(), []backend.Renewal{{Lease: l, TTL: time.Hour}})
	if errs[0] != nil {
		t.Errorf("renewal: %v", errs[0])
	}
	reader := queueUp(t, b, shared(waiting("k", time.Minute)), 2)
	release(t, l)
	release(t, granted(t, done, soon).Lease)
	release(t, granted(t, reader, soon).Lease)
	release(t, acquire(t, b, shared(req("new", time.Minute))))
}

// A request of a reader that arrives later than its repetition does not shorten what a renewal has granted since, and
// does not make a second reader of the owner.
func TestLateRequestOfReader(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	admin, ctx := s.raw(t), context.Background()
	r := shared(req("k", 10*time.Second))
	l := acquire(t, b, r)
	if err := l.Renew(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	n := b.naming.names("k")
	for _, before := range []string{refusedBefore, unansweredBefore} {
		late := acquireSharedScript.Request([]string{n.lock, n.queue, n.fence}, r.Owner, 1000, b.channel, "1", before)
		if answer := exchange.Send(ctx, admin, []exchange.Request{late})[0]; answer.V != fmt.Sprint(l.Token()) {
			t.Errorf("a late acquire of a reader: %v, %v, want its token %d", answer.V, answer.Err, l.Token())
		}
		if h := inspect(t, b, "k"); h.TTL < 50*time.Second || h.Shared != 1 || h.Waiters != 0 {
			t.Errorf("after a late acquire: %+v", h)
		}
	}
	release(t, l)
}
