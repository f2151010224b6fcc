package pair

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

// A Store is one of the two stores, with the settings that package lock applies to a store that is used alone.
type Store struct {
	Backend   backend.Backend
	Name      string // for errors and findings
	Prefix    string // put before every key
	TokenBase uint64 // added to every number of the store
}

// A Backend combines two stores into one. It implements backend.Backend.
type Backend struct {
	first, second Store
	cut           uint64
	guarantees    backend.Guarantees
	leases        *kit.Leases
	closeStores   func() error // closes both stores, once
}

// releaseTimeout is longer than the release timeout of any store.
const releaseTimeout = time.Minute

// New combines two stores into one. Its tokens are the first store's numbers while these are below cut, and the second
// store's numbers from then on. Its Close closes both stores. It is a backend.Lister if both stores are, and a
// backend.Resumer if both stores are. It renews each lease separately.
func New(first, second Store, cut uint64) backend.Backend {
	first.Name, second.Name = cmp.Or(first.Name, "first"), cmp.Or(second.Name, "second")
	b := &Backend{first: first, second: second, cut: cut, guarantees: weaker(first, second)}
	b.leases = kit.NewLeases(requests{b}, releaseTimeout)
	b.closeStores = sync.OnceValue(func() error {
		first := make(chan error, 1)
		go func() { first <- b.first.Backend.Close() }()
		err := b.second.Backend.Close()
		return errors.Join(<-first, err)
	})
	context.AfterFunc(b.leases.Base(), func() { _ = b.closeStores() }) // ends releases that hang
	return b.withOptional()
}

// The types of pairs with List, with Resume, and with both. They have names because package lock names a store by the
// package of its type.
type (
	listing         struct{ *Backend }
	resuming        struct{ *Backend }
	listingResuming struct{ listing }
)

// withOptional returns b with the optional interfaces that both stores have.
func (b *Backend) withOptional() backend.Backend {
	switch lists, resumes := bothImplement[backend.Lister](b), bothImplement[backend.Resumer](b); {
	case lists && resumes:
		return listingResuming{listing{b}}
	case lists:
		return listing{b}
	case resumes:
		return resuming{b}
	}
	return b
}

// bothImplement reports whether both stores implement T.
func bothImplement[T any](b *Backend) bool {
	_, first := b.first.Backend.(T)
	_, second := b.second.Backend.(T)
	return first && second
}

// forEachStore calls f with each store that implements T. Its error begins with the store's name.
func forEachStore[T any](b *Backend, f func(s Store, t T) error) error {
	for _, s := range []Store{b.first, b.second} {
		if t, ok := s.Backend.(T); ok {
			if err := f(s, t); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// Guarantees implements backend.Backend.
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// NotReady implements backend.Readiness.
func (b *Backend) NotReady() error {
	return forEachStore(b, func(_ Store, r backend.Readiness) error { return r.NotReady() })
}

// Capacity implements backend.Capacity.
func (b *Backend) Capacity(ctx context.Context) (leases int, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) error {
		return forEachStore(b, func(_ Store, c backend.Capacity) error {
			n, err := c.Capacity(ctx)
			leases = smaller(leases, n)
			return err
		})
	})
	return leases, err
}

// Inspect implements backend.Backend. A key that is held at only one store counts as held. If the stores have different
// holders, the holder at the second store has the key, and the other waits for it. If both have readers, the larger
// number counts.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return kit.Call(ctx, b.leases, b.validateKey(key), func(ctx context.Context) (backend.Holder, error) {
		first, err := b.first.inspect(ctx, key)
		if err != nil {
			return backend.Holder{}, err
		}
		second, err := b.second.inspect(ctx, key)
		if err != nil || !first.Held() {
			return second, err
		}
		h := second
		switch {
		case !second.Held() || first.Owner == second.Owner:
			h = first
			h.TTL = smaller(first.TTL, second.TTL)
			if h.Token >= b.cut {
				h.Token = second.Token // 0 if the second store is free: the first half alone has no token
			}
		case first.Shared > 0 && second.Shared > 0 && b.cut > 0:
			h.Token = 0 // the token may be this reader's number at the first store, which is unknown
		}
		if second.Shared > 0 { // readers of the second store alone, or of both
			h.Shared = max(first.Shared, second.Shared)
		}
		if h.Waiters = first.Waiters + second.Waiters; first.Waiters < 0 || second.Waiters < 0 {
			h.Waiters = -1
		}
		return h, nil
	})
}

func (s Store) inspect(ctx context.Context, key string) (backend.Holder, error) {
	h, err := s.Backend.Inspect(ctx, s.Prefix+key)
	if err != nil {
		return backend.Holder{}, err
	}
	h.Owner = plainOwner(h.Owner)
	h.Token, err = driver.AddTokenBase(h.Token, s.TokenBase)
	return h, err
}

// Close implements backend.Backend.
func (b *Backend) Close() error {
	if !b.leases.Close() {
		return nil
	}
	err := b.closeStores()
	b.leases.Drain()
	return err
}

func (b *Backend) validateKey(key string) error {
	return cmp.Or(backend.ValidateKey(key), backend.ValidateKey(b.first.Prefix+key),
		backend.ValidateKey(b.second.Prefix+key))
}

// numbered returns the owner of a request to a store: the pair's owner, with the number n appended unless n is 0 and
// owner does not end like a numbered one. No owner is used twice, because a store may still be cleaning up after the
// previous request, even if that lease was released.
func numbered(owner string, n int) string {
	if n == 0 && plainOwner(owner) == owner {
		return owner
	}
	name := fmt.Sprintf("%s#%d", owner, n)
	if len(name) > backend.MaxOwnerLen {
		name = fmt.Sprintf("%x#%d", sha256.Sum256([]byte(owner)), n)
	}
	return name
}
