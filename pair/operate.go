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

// A listing is a pair with List. Both stores must be Listers.
type listing struct{ *Backend }

// List implements backend.Lister. It returns the keys that either store lists, because a key that is held at one store
// counts as held.
func (l listing) List(ctx context.Context, prefix string) (keys []string, err error) {
	b := l.Backend
	err = b.leases.Call(ctx, nil, func(ctx context.Context) error {
		return forEachStore(b, func(s Store, lister backend.Lister) error {
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

// namesOf returns the owners under which a store may hold the half of owner. h is the store's answer for the key. If
// another reader's lease ends later, namesOf finds the half only if at most eight requests to the store preceded it.
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

// tryEach calls f with each name in turn, until f returns anything but ErrLost.
func tryEach(names []string, f func(name string) error) error {
	for _, name := range names {
		if err := f(name); !errors.Is(err, backend.ErrLost) {
			return err
		}
	}
	return backend.ErrLost
}

// plainOwner returns owner without the number that numbered has appended, if any.
func plainOwner(owner string) string {
	if i := strings.LastIndexByte(owner, '#'); i >= 0 {
		if _, err := strconv.ParseUint(owner[i+1:], 10, 64); err == nil {
			return owner[:i]
		}
	}
	return owner
}
