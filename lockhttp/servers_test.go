package lockhttp_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
	"github.com/anylock/lock/memory"
)

// lateMemory answers no renewal or release before the deadline that the lease had when this client last heard of it, as
// if the store could not be reached.
type lateMemory struct{ sharedMemory }

func (b lateMemory) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := b.sharedMemory.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return lateLease{l}, nil
}

type lateLease struct{ backend.Lease }

func (l lateLease) Renew(context.Context, time.Duration) error {
	time.Sleep(time.Until(l.Deadline()) + time.Second)
	return backend.ErrLost
}

func (l lateLease) Release(ctx context.Context) error { return l.Renew(ctx, 0) }

// A server whose own knowledge of a lease has run out asks the store: another server may have extended the lease.
func TestAnotherServerHasRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &world{t: t, store: memory.NewStore(), options: lockhttp.Options{StartDelay: -1}}
		late.open = func() backend.Backend { return lateMemory{sharedMemory{late.store.Client()}} }
		late.start()
		defer late.stop()
		other := *late
		other.open = func() backend.Backend { return sharedMemory{late.store.Client()} }
		other.start()
		defer other.stop()
		lease := make(map[string]string)
		for _, key := range []string{"renewed", "released"} {
			a := late.want(200, "PUT", of(key, "owner", "o", "ttl_ms", "10000"), "")
			lease[key] = a.body.Lease
			other.want(200, "POST", path(key, "/renew", "owner", "o", "lease", a.body.Lease, "ttl_ms", "600000"), "")
		}
		done := make(chan answer, 1)
		go func() {
			a, err := late.try(context.Background(), "POST", path("renewed", "/renew", "owner", "o", "lease", lease["renewed"]), "")
			if err != nil {
				t.Error(err)
			}
			done <- a
		}()
		late.want(204, "DELETE", of("released", "owner", "o", "lease", lease["released"]), "")
		if a := <-done; a.code != 200 {
			t.Errorf("the renewal: %d %s", a.code, a.text)
		}
		if a := other.want(200, "GET", of("released"), ""); a.body.Held {
			t.Errorf("released, and %s", a.text)
		}
		other.want(423, "PUT", of("renewed", "owner", "x"), "")
	})
}
