package zookeeper

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
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

// A node of another program, whose name contains no owner, holds the key for Inspect as it does for Acquire, and Break
// deletes the node.
func TestInspectOfForeignNode(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	release(t, acquire(t, b, req("k", time.Minute)))
	for _, prefix := range []string{"_c_%-lock-", "_c_.x-lock-", "_c_%zz.1-shared-"} {
		path, err := c.Create(b.dir("k")+"/"+prefix, nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		var held *backend.HeldError
		if _, err := b.Acquire(t.Context(), req("k", time.Minute)); !errors.As(err, &held) || !held.Holder.Held() {
			t.Errorf("%s: acquire: %v, %+v", path, err, held)
		}
		h, err := b.Inspect(t.Context(), "k")
		if err != nil || !h.Held() {
			t.Errorf("%s: inspect: %+v, %v", path, h, err)
		}
		if err := b.Break(t.Context(), "k", h.Owner); err != nil {
			t.Errorf("%s: break of %q: %v", path, h.Owner, err)
			_ = c.Delete(path, -1)
		}
	}
}
