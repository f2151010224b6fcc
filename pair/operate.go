package pair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/anylock/lock/backend"
)

// List implements backend.Lister. It returns the keys that either store lists, because a key that is held at one store
// counts as held. Both stores must be Listers.
func (b listing) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) error {
		return forEachStore(b.Backend, func(s Store, lister backend.Lister) error {
			listed, err := lister.List(ctx, s.Prefix+prefix)
			for _, key := range listed {
				keys = append(keys, strings.TrimPrefix(key, s.Prefix))
			}
			return err
		})
	})
	slices.Sort(keys)
	return slices.Compact(keys), err
}

// Break implements backend.Breaker. It ends both halves, the second store's first, or the only half if owner's process
// uses one store. A process that holds the first half and finds the second busy is waiting, and has no lease to end.
// ErrUnsupported means that one of the stores cannot break leases.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, b.validateKey(key), func(ctx context.Context) error {
		if !bothImplement[backend.Breaker](b) {
			return fmt.Errorf("%w: %s or %s cannot end the leases of others", backend.ErrUnsupported, b.first.Name,
				b.second.Name)
		}
		result := backend.ErrLost
		for _, s := range []Store{b.second, b.first} {
			names, held, err := s.namesOf(ctx, key, owner)
			if err != nil || held && names == nil {
				return cmp.Or(err, result)
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

// namesOf returns the owners under which the store may hold owner's half of the key, and whether anybody holds the key.
// If the lease of another reader ends later, namesOf returns only the first nine owners of an attempt.
func (s Store) namesOf(ctx context.Context, key, owner string) (names []string, held bool, err error) {
	h, err := s.Backend.Inspect(ctx, s.Prefix+key)
	switch {
	case err != nil || !h.Held():
	case h.Owner == numbered(owner, 0), plainOwner(h.Owner) == plainOwner(numbered(owner, 1)):
		names = []string{h.Owner}
	case h.Shared > 0: // h names another reader, whose lease ends later
		for n := range 9 {
			names = append(names, numbered(owner, n))
		}
	}
	return names, h.Held(), err
}

// tryEach calls f with each name in turn, until f returns anything but ErrLost.
func tryEach(names []string, f func(name string) error) error {
	for _, name := range names {
		if err := f(name); !errors.Is(err, backend.ErrLost) {
			return err
		}
	}
	return backend.ErrLost
}

// numberOfOwner is what numbered appends.
var numberOfOwner = regexp.MustCompile(`#[0-9]+$`)

// plainOwner returns owner without the number that numbered has appended, if any.
func plainOwner(owner string) string { return numberOfOwner.ReplaceAllString(owner, "") }
