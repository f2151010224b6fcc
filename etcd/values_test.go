package etcd

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// Requests carry the values of the caller's context. A release is sent even if the caller's context has ended.
func TestRequestsCarryValues(t *testing.T) {
	t.Parallel()
	type key struct{}
	s := shared(t)
	var mu sync.Mutex
	seen := make(map[bool]int) // by whether they delete; an unanswered transaction is sent again
	look := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if ctx.Value(key{}) != nil && strings.HasSuffix(method, "/Txn") {
			mu.Lock()
			seen[deletes(req)]++
			mu.Unlock()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	b := intercepted(t, s.Addr, s.options(), look)
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
	if seen[false] == 0 || seen[true] == 0 {
		t.Errorf("with their caller's value: %d transactions of an acquire and %d of a release", seen[false], seen[true])
	}
}
