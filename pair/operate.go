package pair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/anylock/lock/backend"
)

// A listing pair is one of two stores that list their keys.
type listing struct{ pair *Backend }

// List implements backend.Lister. It returns what either store lists, since a key that one of them knows to be held
// counts as held.
func (l listing) List(ctx context.Context, prefix string) (keys []string, err error) {
	b := l.pair
	err = b.leases.Call(ctx, nil, func(ctx context.Context) error {
		for _, s := range []Store{b.first, b.second} {
			listed, err := s.Backend.(backend.Lister).List(ctx, s.Prefix+prefix)
			if err != nil {
				return err
			}
			for _, key := range listed {
				keys = append(keys, strings.TrimPrefix(key, s.Prefix))
			}
		}
		return nil
	})
	slices.Sort(keys)
	return slices.Compact(keys), err
}

// Break implements backend.Breaker: it ends both halves, the second store's first, or the only half of a process that
// uses one store. A process that holds the first store and finds the second busy is waiting, and has no lease to end.
// ErrUnsupported means that one of the stores cannot break leases.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, b.validateKey(key), func(ctx context.Context) error {
		if !can[backend.Breaker](b) {
			return fmt.Errorf("%w: %s or %s cannot end the leases of others", backend.ErrUnsupported, b.first.Name,
				b.second.Name)
		}
		result := backend.ErrLost
		for _, s := range []Store{b.second, b.first} {
			h, err := s.Backend.Inspect(ctx, s.Prefix+key)
			if err != nil {
				return err
			}
			if !h.Held() {
				continue
			}
			names := namesOf(owner, h)
			if names == nil {
				return result
			}
			err = tryEach(names, func(half string) error {
				return s.Backend.(backend.Breaker).Break(ctx, s.Prefix+key, half)
			})
			if err == nil {
				result = nil
			} else if !errors.Is(err, backend.ErrLost) {
				return err
			}
		}
		return result
	})
}

// namesOf returns the names under which a store may know the half of owner, if h is what it knows of the key. It is not
// found among readers after more than eight requests to the store.
func namesOf(owner string, h backend.Holder) (names []string) {
	switch {
	case h.Owner == numbered(owner, 0), plainOwner(h.Owner) == plainOwner(numbered(owner, 1)):
		return []string{h.Owner}
	case h.Shared > 0: // h names another reader, whose lease ends later
		for before := range 9 {
			names = append(names, numbered(owner, before))
		}
	}
	return names
}

// tryEach calls f with one name after the other while it returns ErrLost.
func tryEach(names []string, f func(name string) error) error {
	for _, name := range names {
		if err := f(name); !errors.Is(err, backend.ErrLost) {
			return err
		}
	}
	return backend.ErrLost
}

// plainOwner is the owner of the request that numbered has made owner of.
func plainOwner(owner string) string {
	if i := strings.LastIndexByte(owner, '#'); i >= 0 {
		if _, err := strconv.ParseUint(owner[i+1:], 10, 64); err == nil {
			return owner[:i]
		}
	}
	return owner
}
