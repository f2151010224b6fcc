package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

// acquireAll acquires keys k0, k1, … in one pipeline.
func acquireAll(t *testing.T, b *Backend, n int) []outcome {
	t.Helper()
	all := make([]<-chan outcome, n)
	inOne(t, b, n, func() {
		for i := range all {
			all[i] = startAcquire(context.Background(), b, req(fmt.Sprint("k", i), time.Minute))
		}
	})
	var got []outcome
	for _, done := range all {
		select {
		case o := <-done:
			got = append(got, o)
		case <-time.After(soon):
			t.Fatal("no answer")
		}
	}
	return got
}

// owns checks that the server reports the lease's token for key, and releases the lease.
func owns(t *testing.T, b *Backend, key string, o outcome) {
	t.Helper()
	if o.Err != nil {
		t.Errorf("%s: %v", key, o.Err)
		return
	}
	h, err := b.Inspect(context.Background(), key)
	if err != nil || h.Token != o.Lease.Token() {
		t.Errorf("%s: the lease has token %d, the server says %+v, %v", key, o.Lease.Token(), h, err)
	}
	release(t, o.Lease)
}

// Concurrent requests share one pipeline, and each gets its own reply.
func TestRequestsTravelTogether(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	c := s.raw(t)
	var hook counter
	c.AddHook(&hook)
	b, err := onClient(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const n = 20
	for i, o := range acquireAll(t, b, n) { // go-redis has a separate pool for pipelines: open its connection
		owns(t, b, fmt.Sprint("k", i), o)
	}
	before := hook.n.Load()
	all := acquireAll(t, b, n)
	if sent := hook.n.Load() - before; sent != 1 {
		t.Errorf("%d requests of the client for %d that came together, want 1", sent, n)
	}
	for i, o := range all {
		owns(t, b, fmt.Sprint("k", i), o)
	}
}

// A connection that hangs delays only the requests on it, even if several connections hang. Later requests use other
// connections.
func TestHungConnection(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	w := wire{db: s.Number}
	b := wired(t, &w, s.Addr)
	const hung, most = 3 * time.Second, 1500 * time.Millisecond // go-redis waits 3 s for a reply
	b.options.Timeout = hung + 2*time.Second
	var stuck []<-chan outcome
	for i := range exchange.UsualWorkers + 1 {
		w.set(func() { w.hang = true })
		stuck = append(stuck, startAcquire(context.Background(), b, req(fmt.Sprint("stuck", i), time.Minute)))
		until(t, soon, "the request hangs", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.hang
		})
	}
	for i := range 20 {
		begun := time.Now()
		release(t, acquire(t, b, req(fmt.Sprint("k", i), time.Minute)))
		if took := time.Since(begun); took > most {
			t.Errorf("cycle %d beside connections that hang took %v", i, took)
		}
	}
	for _, done := range stuck {
		if o := <-done; o.Err == nil { // a second attempt succeeded in time
			release(t, o.Lease)
		} else if !errors.Is(o.Err, exchange.ErrNoAnswer) {
			t.Errorf("a request on a connection that hangs: %v", o.Err)
		}
	}
}

// A cancelled Acquire does not affect the other requests of its pipeline, and its grant is cleaned up.
func TestCancelledInPipeline(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	c := s.client(t, redis.Options{Addr: p.Addr})
	var hook counter
	c.AddHook(&hook)
	b, err := onClient(c, &Options{Timeout: 2 * soon})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i, o := range acquireAll(t, b, 2) {
		owns(t, b, fmt.Sprint("k", i), o)
	}
	before := hook.n.Load()
	const delay = 1500 * time.Millisecond // half of go-redis' read timeout
	p.Set(func(p *storetest.Proxy) { p.Delay = delay })
	ctx, cancel := context.WithCancel(context.Background())
	const n = 5
	others := make([]<-chan outcome, n)
	var gone <-chan outcome
	inOne(t, b, n+1, func() {
		gone = startAcquire(ctx, b, req("gone", time.Minute))
		for i := range others {
			others[i] = startAcquire(context.Background(), b, req(fmt.Sprint("k", i), time.Minute))
		}
	})
	until(t, soon, "the pipeline is sent", func() bool { return hook.n.Load() == before+1 })
	cancel()
	begun := time.Now()
	if o := <-gone; !errors.Is(o.Err, context.Canceled) || o.At.Sub(begun) > delay-100*time.Millisecond {
		t.Errorf("a cancelled acquire: %v after %v, the answers take %v", o.Err, o.At.Sub(begun), delay)
	}
	p.Set(func(p *storetest.Proxy) { p.Delay = 0 })
	for i, done := range others {
		owns(t, b, fmt.Sprint("k", i), <-done)
	}
	until(t, soon, "the key of the one who went is free", func() bool {
		return s.raw(t).Exists(context.Background(), b.naming.lock("gone")).Val() == 0
	})
}

// A request that is cancelled in the queue is never sent, so nothing needs cleaning up.
func TestGivenUpBeforeSent(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	admin := redistest.Raw(t, s.Addr)
	var w wire
	b := wired(t, &w, s.Addr)
	ctx, cancel := context.WithCancel(context.Background())
	before := redistest.Commands(t, admin)
	inOne(t, b, 0, func() { // 0: in the end none waits
		done := startAcquire(ctx, b, req("k", time.Minute))
		until(t, soon, "it waits", func() bool {
			return b.batcher.Waiting() == 1
		})
		cancel()
		if o := <-done; !errors.Is(o.Err, context.Canceled) {
			t.Errorf("acquire: %v", o.Err)
		}
	})
	until(t, soon, "no worker is open", b.leases.Idle)
	if diff, sum := redistest.Since(before, redistest.Commands(t, admin)); sum != 0 {
		t.Errorf("a request that was given up before it was sent led to %v", diff)
	}
}

// If one command of a pipeline fails, the others succeed.
func TestErrorInPipeline(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	w := wire{db: s.Number}
	b := wired(t, &w, s.Addr)
	ctx := context.Background()
	const n, bad = 9, 4
	if err := s.raw(t).HSet(ctx, b.naming.lock(fmt.Sprint("k", bad)), "a", "b").Err(); err != nil {
		t.Fatal(err)
	}
	for i, o := range acquireAll(t, b, n) {
		if i != bad {
			owns(t, b, fmt.Sprint("k", i), o)
		} else if o.Err == nil || !exchange.IsReply(o.Err) {
			t.Errorf("acquire of a key that is a hash: %v", o.Err)
		}
	}
}

// If the server does not know one script of a pipeline, only the requests for that script are repeated, with its text.
func TestUnknownScriptInPipeline(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	admin := redistest.Raw(t, s.Addr)
	var w wire
	b := wired(t, &w, s.Addr)
	ctx := context.Background()
	held := acquire(t, b, req("held", time.Minute))
	defer release(t, held)
	if err := admin.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.ScriptLoad(ctx, acquireScript.Text).Err(); err != nil {
		t.Fatal(err)
	}
	before := redistest.Commands(t, admin)
	const pairs = 4
	acquired := make([]<-chan outcome, pairs)
	inspected := make(chan error, pairs)
	inOne(t, b, 2*pairs, func() {
		for i := range pairs {
			acquired[i] = startAcquire(ctx, b, req(fmt.Sprint("k", i), time.Minute))
			go func() {
				h, err := b.Inspect(ctx, "held")
				if err == nil && h.Token != held.Token() {
					err = fmt.Errorf("inspect: %+v", h)
				}
				inspected <- err
			}()
		}
	})
	var got []outcome
	for i := range pairs {
		got = append(got, <-acquired[i])
		if err := <-inspected; err != nil {
			t.Error(err)
		}
	}
	if diff, _ := redistest.Since(before, redistest.Commands(t, admin)); diff["evalsha"] != 2*pairs ||
		diff["eval"] != pairs {
		t.Errorf("%v, want %d evalsha and %d eval", diff, 2*pairs, pairs)
	}
	for i, o := range got {
		owns(t, b, fmt.Sprint("k", i), o)
	}
}

// If the connection breaks anywhere in the replies to a pipeline, every request is repeated, and recognises its own
// earlier grant.
func TestPipelineCut(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	admin := s.raw(t)
	w := wire{db: s.Number}
	b := wired(t, &w, s.Addr)
	const n = 6
	var keys []string
	for i := range n {
		keys = append(keys, b.naming.lock(fmt.Sprint("k", i)))
	}
	for least := 1; least < 160; least += 13 {
		w.set(func() { w.least = least })
		all := acquireAll(t, b, n)
		w.set(func() { w.least = 0 })
		var tokens []uint64
		for i, o := range all {
			owns(t, b, fmt.Sprint("k", i), o)
			if o.Lease != nil {
				tokens = append(tokens, o.Lease.Token())
			}
		}
		if slices.Sort(tokens); len(slices.Compact(tokens)) != n {
			t.Errorf("cut after %d bytes: tokens %v", least, tokens)
		}
		until(t, soon, "all is released", func() bool { return admin.Exists(context.Background(), keys...).Val() == 0 })
	}
}

// A breaker is a hook that blocks one pipeline. It returns an error for the pipeline, but sets none for its commands.
type breaker struct {
	counter
	once atomic.Bool
}

var errBroken = errors.New("circuit is open")

func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if b.once.CompareAndSwap(true, false) {
			return errBroken
		}
		return next(ctx, cmds)
	}
}

func TestHookFailsPipeline(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	c := s.raw(t)
	var hook breaker
	c.AddHook(&hook)
	b, err := onClient(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	hook.once.Store(true)
	for i, o := range acquireAll(t, b, 3) {
		if !errors.Is(o.Err, errBroken) {
			t.Errorf("k%d: %v, want %v", i, o.Err, errBroken)
		}
	}
}

// If every connection hangs and the client has no read timeout, abandoned requests do not pile up in the queue.
func TestGivenUpIsForgotten(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	c := redis.NewClient(&redis.Options{DB: s.Number, Addr: p.Addr, PoolSize: exchange.UsualWorkers, PipelinePoolSize: -1,
		ReadTimeout: -1, MaxRetries: -1})
	defer c.Close()
	b, err := onClient(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer func() {
		p.Set(func(p *storetest.Proxy) { p.Silent = false })
		p.Cut()
	}()
	release(t, acquire(t, b, req("warm", time.Minute)))
	b.options.Timeout = 50 * time.Millisecond
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	const rounds, n = 5, 300
	for range rounds {
		var all []<-chan outcome
		for i := range n {
			all = append(all, startAcquire(context.Background(), b, req(fmt.Sprint("k", i), time.Minute)))
		}
		for _, done := range all {
			if o := <-done; o.Err == nil {
				t.Fatal("granted by a server that is silent")
			}
		}
	}
	if kept := b.batcher.Waiting(); kept > 2*n {
		t.Errorf("%d requests are kept, of %d", kept, rounds*n)
	}
}

// Close ends queued requests and requests in progress.
func TestCloseInPipeline(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?pool_size="+strconv.Itoa(exchange.UsualWorkers)) // no workers for queued requests
	const n = 40
	answer := make(chan struct{})
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func(reply []byte) bool {
			if reply[0] == '$' { // a token, not a reply during the connection's setup
				<-answer
			}
			return true
		}
	})
	done := make([]<-chan outcome, n)
	for i := range done {
		key := fmt.Sprint("k", i)
		done[i] = startAcquire(context.Background(), b, req(key, time.Minute))
		if i < exchange.UsualWorkers {
			until(t, soon, "the server has the request", func() bool {
				return s.raw(t).Exists(context.Background(), b.naming.lock(key)).Val() == 1
			})
		}
	}
	until(t, soon, "the others wait", func() bool { return b.batcher.Waiting() == n-exchange.UsualWorkers })
	time.AfterFunc(50*time.Millisecond, func() { close(answer) }) // after Close has begun
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, d := range done {
		select {
		case o := <-d:
			if o.Err == nil {
				if err := o.Lease.Release(context.Background()); !errors.Is(err, backend.ErrClosed) && err != nil {
					t.Errorf("release after Close: %v", err)
				}
			}
		case <-time.After(soon):
			t.Fatal("an Acquire outlives Close")
		}
	}
	if !b.leases.Idle() {
		t.Error("something goes on after Close")
	}
}
