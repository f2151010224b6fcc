package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// live knows the leases that are held.
type live struct {
	mu     sync.Mutex
	leases map[leaseKey]held
}

// Those that a lease is handed on to share its owner; where the store has no tokens, these too.
type leaseKey struct {
	owner string
	token uint64
}

type held struct {
	n     int // of grants less ends, which may be told in either order
	since time.Time
	all   attribute.Set
}

func (l *live) add(owner string, token uint64, n int, all []attribute.KeyValue) {
	key := leaseKey{owner, token}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.leases[key]
	h.n += n
	switch {
	case h.n == 0:
		delete(l.leases, key)
		return
	case n > 0:
		h.since, h.all = time.Now(), attribute.NewSet(all...)
	}
	if l.leases == nil {
		l.leases = make(map[leaseKey]held)
	}
	l.leases[key] = h
}

// observe tells the age of the oldest lease of each set of attributes.
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
