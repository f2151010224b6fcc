package zookeeper

import (
	"cmp"
	"slices"
	"strings"

	"github.com/anylock/lock/backend"
)

// queueOf returns the places of a key in order. The places whose numbers give no order come last, the shared ones
// first: see lastNumber.
func queueOf(children []string) (q []place) {
	for _, name := range children {
		if p, ok := parsePlace(name); ok {
			q = append(q, p)
		}
	}
	slices.SortFunc(q, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	})
	return q
}

// rank orders the places whose numbers give no order: after all others, and shared before exclusive.
func (p place) rank() int {
	switch {
	case p.isOrdered():
		return 0
	case p.mode == shared:
		return 1
	}
	return 2
}

// holdersOf returns the places in q that hold the key, or may hold it as soon as their clients know: the first place
// if it is exclusive, and otherwise the shared places in front of the first exclusive one.
func holdersOf(q []place) []place {
	i := slices.IndexFunc(q, func(p place) bool { return p.mode != shared })
	switch {
	case i < 0:
		return q
	case i > 0:
		return q[:i]
	case q[0].isOrdered():
		return q[:1]
	}
	return nil
}

// conflicting returns the places in q that a request behind them waits for: a shared one for the exclusive places, an
// exclusive one for all places. But an exclusive place whose number gives no order never holds the key, and only keeps
// readers out.
func conflicting(q []place, isShared bool) []place {
	return slices.DeleteFunc(slices.Clone(q), func(p place) bool {
		if p.mode == shared {
			return isShared
		}
		return !isShared && !p.isOrdered()
	})
}

// isUndecided reports whether readers hold the key, and only exclusive requests that do not wait are behind them. These
// requests delete their nodes, unless the last reader releases its lease first. So a shared request behind q cannot be
// refused yet.
func isUndecided(q []place) bool {
	return len(q) > 0 && q[0].mode == shared && !slices.ContainsFunc(q, func(p place) bool { return p.mode == exclusive })
}

// heldError reports the holders in q. Of several readers it names the last in the queue, because the store does not
// know which lease ends last.
func heldError(q []place) error {
	holders := holdersOf(q)
	if len(holders) == 0 {
		return backend.ErrHeld
	}
	return &backend.HeldError{Holder: holder(q, holders)}
}

// holder describes the holders of q, as far as the names of their nodes do.
func holder(q, holders []place) backend.Holder {
	last := holders[len(holders)-1]
	h := backend.Holder{Owner: last.owner(), Waiters: len(q) - len(holders)}
	if last.mode == shared {
		h.Shared = len(holders)
	}
	return h
}
