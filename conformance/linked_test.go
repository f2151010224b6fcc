package conformance_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// The wire of the reference store breaks exactly where CutAfter sets the cut: at every byte of an attempt, both ways.
func TestWireCuts(t *testing.T) { synctest.Test(t, wireCuts) }

func wireCuts(t *testing.T) {
	for _, way := range []struct {
		d       conformance.Direction
		length  int64
		granted func(n int64) bool // whether the attempt succeeds although the wire is cut after n bytes
	}{
		{conformance.ToStore, requestLen, func(n int64) bool { return n > requestLen }},
		{conformance.FromStore, replyLen, func(n int64) bool { return n >= replyLen }},
	} {
		for n := range way.length + 2 {
			s := newServer("")
			b, link, err := s.linked(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			cut := link.CutAfter(way.d, n)
			l, err := b.Acquire(t.Context(), backend.Request{Key: "k", Owner: "o", TTL: time.Minute})
			if (err == nil) != way.granted(n) {
				t.Errorf("cut after %d bytes %v: %v", n, way.d, err)
			}
			link.Heal() // all events have been reported by now
			select {
			case <-cut:
			default:
				if n <= way.length {
					t.Errorf("not cut after %d bytes %v", n, way.d)
				}
			}
			if err == nil {
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			link.Close()
			close(s.stop)
		}
	}
}

// While the wire holds or drops messages, attempts time out. After Heal, attempts get replies again. A wire that
// refuses connections fails every attempt.
func TestWireHoldsAndDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		b, link, err := s.linked(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		attempt := func(key string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := b.Acquire(ctx, backend.Request{Key: key, Owner: key, TTL: time.Minute})
			return err
		}
		for _, fault := range []func(conformance.Direction){link.Hold, link.Drop} {
			for _, d := range []conformance.Direction{conformance.ToStore, conformance.FromStore} {
				fault(d)
				if err := attempt("k"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("through a broken wire: %v", err)
				}
				link.Heal()
				for range 100 {
					if err = attempt("k" + d.String()); err == nil || errors.Is(err, backend.ErrHeld) {
						break
					}
				}
				if err != nil && !errors.Is(err, backend.ErrHeld) {
					t.Errorf("after healing: %v", err)
				}
			}
		}
		link.Refuse()
		if err := attempt("k"); err == nil {
			t.Error("no error through a wire that is refused")
		}
	})
}

// A frozen process returns nothing until it is thawed. The key of a killed process is granted to a waiter.
func TestShamProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		p, err := s.process(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		const ttl = 2 * time.Second
		acquire := func(key string) <-chan conformance.ProcessGrant {
			done, err := p.Acquire(backend.Request{Key: key, Owner: key, TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		if g := <-acquire("k"); g.Err != nil || g.Token == 0 || g.Left <= 0 {
			t.Fatalf("granted: %+v", g)
		}
		p.Freeze()
		done := acquire("other")
		select {
		case g := <-done:
			t.Fatalf("a frozen process answered: %+v", g)
		case <-time.After(50 * time.Millisecond):
		}
		p.Thaw()
		if g := <-done; g.Err != nil {
			t.Error(g.Err)
		}
		if now, err := p.Now(t.Context()); err != nil || time.Until(now) < time.Hour-time.Minute {
			t.Errorf("its clock says %v, error %v", now, err)
		}
		p.Kill()
		b := newClient(s)
		defer b.Close()
		if l, err := b.Acquire(t.Context(), backend.Request{Key: "k", Owner: "next", TTL: ttl, Wait: true}); err != nil {
			t.Error(err)
		} else if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// If the harness has no links, the suite calls its Cut hook for a client that waits.
func TestCutHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for bug, want := range map[string]conformance.Status{"": conformance.Pass,
			"broken connection ends the wait": conformance.Fail} {
			s := newServer(bug)
			defer close(s.stop)
			var links sync.Map
			results, err := conformance.Execute(t.Context(), conformance.Harness{
				Open: func(ctx context.Context) (backend.Backend, error) {
					b, link, err := s.linked(ctx)
					links.Store(b, link)
					return b, err
				},
				Cut: func(b backend.Backend) {
					link, _ := links.Load(b)
					link.(conformance.Link).Cut()
				},
			}, conformance.Options{Run: only("CutClientRecovers")})
			if err != nil || results[0].Status != want {
				t.Errorf("%q: %+v, error %v, want %s", bug, results, err, want)
			}
		}
	})
}
