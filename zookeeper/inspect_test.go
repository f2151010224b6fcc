package zookeeper

import (
	"sync"
	"testing"
	"time"
)

// If the holder changes whenever Inspect is about to read its token, for example because the reader is far from the
// servers, Inspect reports a holder without a token.
func TestInspectOfHotKey(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	p := newProxy(t, s.Addr)
	b, far := opened(t, s.url()), opened(t, s.at(p.Addr))
	held := acquire(t, b, req("k", time.Minute))
	var mu sync.Mutex // guards held and changes
	changes := 0
	p.set(func(p *proxy) {
		p.request = func(op int32) (forward, cut bool) {
			if op == opGetData {
				mu.Lock()
				defer mu.Unlock()
				changes++
				if err := held.Release(t.Context()); err != nil {
					t.Error(err)
				}
				next, err := b.Acquire(t.Context(), req("k", time.Minute))
				if err != nil {
					t.Error(err)
				}
				held = next
			}
			return true, false
		}
	})
	h, err := far.Inspect(t.Context(), "k")
	mu.Lock()
	defer mu.Unlock()
	if err != nil || !h.Held() || h.Token != 0 {
		t.Errorf("after %d changes: %+v, %v, want a holder without a token", changes, h, err)
	}
	release(t, held)
}
