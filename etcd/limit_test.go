package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// However many requests there are, and however long each may take: each ends at its time, with its caller, or when it says so.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits()
		var running sync.WaitGroup
		for range 300 {
			time.Sleep(rand.N(20 * time.Millisecond))
			d, answered, gaveUp := rand.N(time.Second), rand.N(2*time.Second), rand.N(2*time.Second)
			running.Go(func() {
				caller, giveUp := context.WithTimeout(t.Context(), gaveUp)
				defer giveUp()
				begun := time.Now()
				ctx, r := l.begin(caller, d)
				select {
				case <-ctx.Done():
				case <-time.After(answered):
				}
				if took, want := time.Since(begun), min(d, answered, gaveUp); took != want {
					t.Errorf("over after %v, want %v: limit %v, answer after %v, caller gone after %v", took, want, d, answered, gaveUp)
				}
				r.end()
				if ctx.Err() == nil {
					t.Error("not ended at its end")
				}
			})
		}
		running.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := l.clock.Len(); n > 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// A request carries its caller's values, but no deadline: each would cost timers here and at the server. A release goes out
// although its caller's context has ended.
func TestRequestsHaveNoDeadline(t *testing.T) {
	t.Parallel()
	type key struct{}
	s := shared(t)
	var mu sync.Mutex
	seen := make(map[string]int)
	look := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if ctx.Value(key{}) != nil {
			mu.Lock()
			seen[method]++
			mu.Unlock()
			if _, ok := ctx.Deadline(); ok {
				t.Errorf("%s with a deadline", method)
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop(), DialTimeout: soon,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(look)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	b, err := New(c, s.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	l, err := b.Acquire(ctx, req("k", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := l.Release(ctx); err != nil {
		t.Errorf("release by a caller that has gone: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := seen["/etcdserverpb.KV/Txn"]; n != 2 {
		t.Errorf("%d transactions with their caller's value, want an acquire and a release", n)
	}
}

func TestNoAnswerIsNoErrorOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Backend{options: Options{Timeout: 5 * time.Second}, limits: newLimits()}
		begun := time.Now()
		_, err := b.repeat(t.Context(), b.options.Timeout, func(ctx context.Context) error {
			<-ctx.Done()
			return clientv3.ContextError(ctx, ctx.Err())
		})
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNoAnswer) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took < b.options.Timeout || took > b.options.Timeout+b.options.Timeout/attemptShare {
			t.Errorf("after %v", took)
		}
	})
}
