package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/redistest"
)

// On a full server, leases are renewed, released, handed off and granted. A granted lease can be renewed.
func TestFullServer(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	b := opened(t, "redis://"+s.Addr)
	ctx := context.Background()
	const n = 10
	lease := func(name string) []backend.Renewal {
		list := make([]backend.Renewal, n)
		for i := range list {
			list[i] = backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint(name, i), time.Minute)), TTL: 2 * time.Minute}
		}
		return list
	}
	single, batch, contended := lease("single"), lease("batch"), lease("contended")
	var first, second []<-chan outcome
	for i := range contended {
		first = append(first, queueUp(t, b, waiting(fmt.Sprint("contended", i), time.Minute), 1))
	}
	undo := redistest.Fill(t, s.Addr)
	defer undo()
	lost := 0
	for _, r := range single {
		if err := r.Lease.Renew(ctx, r.TTL); err != nil {
			lost++
			t.Log(err)
		}
	}
	for _, err := range b.RenewBatch(ctx, batch) {
		if err != nil {
			lost++
			t.Log(err)
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d renewals failed", lost, 2*n)
	}
	for i := range contended {
		second = append(second, startAcquire(ctx, b, waiting(fmt.Sprint("contended", i), time.Minute)))
	}
	var released []time.Time
	for i, r := range contended {
		h, err := b.Inspect(ctx, fmt.Sprint("contended", i))
		until(t, soon, "the second waiter is queued", func() bool {
			h, err = b.Inspect(ctx, fmt.Sprint("contended", i))
			return err == nil && h.Waiters == 2
		})
		released = append(released, time.Now())
		release(t, r.Lease)
	}
	// A missed hand-off takes a whole reservation. A machine that pauses for so long, once or twice, delays one or two
	// hand-offs each time. A real fault delays a hand-off of every key.
	const pauses = 4
	slow := 0
	handedOn := func(done <-chan outcome, released time.Time) backend.Lease {
		t.Helper()
		o := granted(t, done, soon)
		if took := o.At.Sub(released); took >= reservation {
			t.Logf("a hand-off took %v", took)
			slow++
		}
		return o.Lease
	}
	for i := range contended {
		l := handedOn(first[i], released[i])
		if err := l.Renew(ctx, 2*time.Minute); err != nil {
			t.Errorf("renewal of what a full server has granted: %v", err)
		}
		again := time.Now()
		release(t, l)
		release(t, handedOn(second[i], again))
	}
	if slow > pauses {
		t.Errorf("%d of %d hand-offs were slow", slow, 2*n)
	}
	for i, r := range append(single, batch...) {
		release(t, r.Lease)
		l, err := b.Acquire(ctx, req(fmt.Sprint("new", i), time.Minute))
		if err == nil { // a granted lease must be renewable
			err = l.Renew(ctx, 2*time.Minute)
			release(t, l)
		}
		if err != nil {
			t.Errorf("a new lease: %v", err)
		}
	}
}
