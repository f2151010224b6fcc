package pair_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

func resume(t *testing.T, b backend.Backend, r backend.Request) (backend.Lease, error) {
	t.Helper()
	return b.(backend.Resumer).Resume(t.Context(), r)
}

// Resume finds both halves, even if the owner has a number appended at a store, or the lease of another reader ends
// later.
func TestResumeFindsBothHalves(t *testing.T) {
	for name, owner := range map[string]string{
		"Plain": "owner", "WithNumber": "owner#1", "Longest": strings.Repeat("o", backend.MaxOwnerLen),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := start(t, 0)
				writer := storetest.Acquire(t, g.next, storetest.Try(key, ttl))
				r := shared(storetest.Wait(key, ttl))
				r.Owner = owner
				waiting := storetest.Start(t.Context(), g.both, r)
				time.Sleep(3 * time.Second) // the waiter makes more than one request to each store
				if _, err := resume(t, g.both, r); !errors.Is(err, backend.ErrLost) {
					t.Errorf("Resume of an owner that waits: %v, want ErrLost", err)
				}
				storetest.Release(t, writer)
				o := <-waiting
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				storetest.Acquire(t, g.both, shared(storetest.Try(key, time.Hour)))
				resumed, err := resume(t, g.both, r)
				if err != nil || resumed.Token() != o.Lease.Token() {
					t.Fatalf("Resume: %v, %v, want token %d", resumed, err, o.Lease.Token())
				}
				storetest.Release(t, resumed)
				if err := o.Lease.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
					t.Errorf("Renew after the release of the resumed lease: %v, want ErrLost", err)
				}
			})
		})
	}
}

// Resume does not mistake an owner for one with a number appended, nor for an owner that holds the key at only one
// store.
func TestResumeOfAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, 0)
		for _, owners := range [][2]string{{"x#1", "x"}, {"x", "x#1"}, {"x#1", "x#1#1"}, {"x#0", "x"}} {
			r := storetest.Try(key, ttl)
			r.Owner = owners[0]
			l := storetest.Acquire(t, g.both, r)
			other := r
			other.Owner = owners[1]
			if _, err := resume(t, g.both, other); !errors.Is(err, backend.ErrLost) {
				t.Errorf("Resume of %s as %s: %v, want ErrLost", owners[0], owners[1], err)
			}
			if h, err := g.both.Inspect(t.Context(), key); err != nil || h.Owner != r.Owner {
				t.Errorf("Inspect: %+v, %v, want the owner %s", h, err, r.Owner)
			}
			resumed, err := resume(t, g.both, r)
			if err != nil {
				t.Fatalf("Resume of %s: %v", r.Owner, err)
			}
			if err := l.Renew(t.Context(), ttl); err != nil {
				t.Error(err)
			}
			storetest.Release(t, resumed)
		}
		for _, b := range []backend.Backend{g.old, g.next} {
			r := storetest.Try(key, ttl)
			l := storetest.Acquire(t, b, r)
			short := r
			short.TTL = ttl / 10
			if _, err := resume(t, g.both, short); !errors.Is(err, backend.ErrLost) {
				t.Errorf("Resume of a lease at one store: %v, want ErrLost", err)
			}
			time.Sleep(ttl / 2)
			refusedBy(t, b) // its TTL is unchanged
			storetest.Release(t, l)
		}
	})
}

// A pair is a Resumer only if both stores are.
func TestResumeNeedsBothStores(t *testing.T) {
	only := func() backend.Backend { return struct{ backend.Backend }{memory.New()} }
	for want, stores := range map[bool][][2]backend.Backend{
		true: {{memory.New(), memory.New()}}, false: {{only(), memory.New()}, {memory.New(), only()}, {only(), only()}},
	} {
		for _, s := range stores {
			b := pair.New(pair.Store{Backend: s[0]}, pair.Store{Backend: s[1]}, 0)
			defer b.Close()
			if _, can := b.(backend.Resumer); can != want {
				t.Errorf("%T and %T: a Resumer %v, want %v", s[0], s[1], can, want)
			}
		}
	}
	both := pair.New(pair.Store{Backend: memory.New(), Prefix: strings.Repeat("p", 20)}, pair.Store{Backend: memory.New()},
		0)
	defer both.Close()
	r := backend.Request{Key: strings.Repeat("k", backend.MaxKeyLen), Owner: "o", TTL: ttl}
	if _, err := both.(backend.Resumer).Resume(context.Background(), r); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Resume of a key that is too long with its prefix: %v, want ErrInvalid", err)
	}
}

// Package lock names a store by the package of its type, whatever optional interfaces the two stores have.
func TestTypesNameThePackage(t *testing.T) {
	for _, wrap := range []func(m *memory.Backend) backend.Backend{
		func(m *memory.Backend) backend.Backend { return m },
		func(m *memory.Backend) backend.Backend { return struct{ backend.Backend }{m} },
		func(m *memory.Backend) backend.Backend {
			return struct {
				backend.Backend
				backend.Lister
			}{m, m}
		},
		func(m *memory.Backend) backend.Backend {
			return struct {
				backend.Backend
				backend.Resumer
			}{m, m}
		},
	} {
		b := pair.New(pair.Store{Backend: wrap(memory.New())}, pair.Store{Backend: wrap(memory.New())}, 0)
		defer b.Close()
		if name := strings.TrimPrefix(fmt.Sprintf("%T", b), "*"); !strings.HasPrefix(name, "pair.") {
			t.Errorf("the type is %s, want one of package pair", name)
		}
	}
}
