package lock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

type leaseUntil struct {
	backend.Lease
	deadline time.Time
}

func (l leaseUntil) Deadline() time.Time { return l.deadline }

type batchStore struct{ backend.Backend }

func (batchStore) RenewBatch(context.Context, []backend.Renewal) []error { return nil }

// The remaining times of the leases in one request differ by at most a factor of four from that of the first, even if
// each is close to the next. Otherwise the time limit of the shortest would end the request for the longest.
func TestOneRequestForSimilarLeases(t *testing.T) {
	l := &Locker{backend: batchStore{}}
	r := newRenewer(l)
	now := time.Now()
	for i, seconds := range []int{2000, 670, 200, 67, 20} {
		lease := leaseUntil{deadline: now.Add(time.Duration(seconds) * time.Second)}
		due := &tenure{grant: grant{locker: l, lease: lease, granted: now}, maxAge: forever}
		due.renewal.Item = due
		r.clock.Set(&due.renewal, now.Add(time.Duration(i-10)*time.Microsecond))
	}
	var sizes []int
	for due, _ := r.popDueLocked(); len(due) > 0; due, _ = r.popDueLocked() {
		sizes = append(sizes, len(due))
	}
	if want := []int{2, 2, 1}; !slices.Equal(sizes, want) {
		t.Errorf("requests for %v leases, want %v", sizes, want)
	}
}
