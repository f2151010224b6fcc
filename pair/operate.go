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
			if err == nil && !h.Held() {
				continue
			}
			same := h.Held() && isHalfOf(h.Owner, owner)
			if err == nil && !same && h.Shared == 0 {
				break
			}
			if same {
				err = s.Backend.(backend.Breaker).Break(ctx, s.Prefix+key, h.Owner)
			} else if err == nil {
				err = s.breakReader(ctx, key, owner)
			}
			if err == nil {
				result = nil
			} else if !errors.Is(err, backend.ErrLost) {
				return err
			}
		}
		return result
	})
}

// maxNumber is the highest number of an owner that is searched for among readers.
const maxNumber = 8

// breakReader ends the shared lease of an owner whom Inspect does not name, because another reader's lease ends later.
// An owner that needed more than maxNumber requests to the store is not found.
func (s Store) breakReader(ctx context.Context, key, owner string) error {
	err := backend.ErrLost
	for before := 0; before <= maxNumber && errors.Is(err, backend.ErrLost); before++ {
		err = s.Backend.(backend.Breaker).Break(ctx, s.Prefix+key, numbered(owner, before))
	}
	return err
}

// isHalfOf reports whether half may be the name of owner, as Inspect returns it, at a store.
func isHalfOf(half, owner string) bool {
	return half == owner || plainOwner(half) == owner || isNumbered(half, owner)
}

// isNumbered reports whether numbered has made half of owner.
func isNumbered(half, owner string) bool {
	plain := plainOwner(half)
	return half == numbered(owner, 0) || half != plain && plain == plainOwner(numbered(owner, 1))
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
