package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// live records the leases that are held.
type live struct {
	mu     sync.Mutex
	leases map[leaseKey]held
	seen   map[attribute.Distinct]bool // sets of attributes that leases have had
}

// A leaseKey identifies a lease. After a hand-off, leases have the same owner and, in a store without tokens, the same
// token.
type leaseKey struct {
	owner string
	token uint64
}

type held struct {
	n     int // grants minus ends, which may be reported in either order
	since time.Time
	all   attribute.Set
}

// begin records a grant. It reports whether no earlier lease had the same attributes.
func (l *live) begin(owner string, token uint64, all []attribute.KeyValue) (first bool) {
	now, attributes := time.Now(), attribute.NewSet(all...)
	l.mu.Lock()
	defer l.mu.Unlock()
	key := leaseKey{owner, token}
	l.setLocked(key, held{l.leases[key].n + 1, now, attributes})
	first = !l.seen[attributes.Equivalent()]
	l.seen[attributes.Equivalent()] = true
	return first
}

func (l *live) end(owner string, token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := leaseKey{owner, token}
	h := l.leases[key]
	h.n--
	l.setLocked(key, h)
}

func (l *live) setLocked(key leaseKey, h held) {
	if h.n == 0 {
		delete(l.leases, key)
		return
	}
	l.leases[key] = h
}

// observe reports the age of the oldest lease for each set of attributes.
func (l *live) observe(_ context.Context, o metric.Float64Observer) error {
	oldest := make(map[attribute.Distinct]held)
	l.mu.Lock()
	for _, h := range l.leases {
		if known, ok := oldest[h.all.Equivalent()]; h.n > 0 && (!ok || h.since.Before(known.since)) {
			oldest[h.all.Equivalent()] = h
		}
	}
	l.mu.Unlock()
	for _, h := range oldest {
		o.Observe(time.Since(h.since).Seconds(), metric.WithAttributeSet(h.all))
	}
	return nil
}
