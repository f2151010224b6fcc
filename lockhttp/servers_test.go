package lockhttp_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
	"github.com/anylock/lock/memory"
)

// lateMemory is a client whose renewals and releases fail, a second after the deadline that it knows, as if the store
// had not responded before.
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
	time.Sleep(time.Until(l.Deadline()) + time.Second) // sleeps: how late the reply is
	return backend.ErrLost
}

func (l lateLease) Release(ctx context.Context) error { return l.Renew(ctx, 0) }

// A client that has a lease from one server may still have an attempt of the same owner at another server. If a request
// names the lease, that server acts on the lease.
func TestNamedLeaseBesideAnAttempt(t *testing.T) {
	inBubble(t, lockhttp.Options{Linger: time.Minute}, func(w *world) {
		other := *w
		other.start()
		defer other.stop()
		for _, shared := range []string{"false", "true"} {
			w.want(200, "PUT", of("k", "owner", "holder", "ttl_ms", "5000"), "")
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if _, err := w.try(ctx, "PUT", of("k", "owner", shared, "shared", shared, "wait_ms", "60000"), ""); err == nil {
				t.Fatal("the request did not end")
			}
			cancel()
			put := of("k", "owner", shared, "shared", shared, "retry", "true", "wait_ms", "50000", "ttl_ms", "600000")
			lease := other.want(200, "PUT", put, "").body.Lease
			if a := w.want(200, "POST", path("k", "/renew", "owner", shared, "lease", lease), ""); a.body.Lease != lease {
				t.Errorf("renewed %s, want %s", a.text, lease)
			}
			w.want(423, "PUT", of("k", "owner", "x"), "")
			w.want(204, "DELETE", of("k", "owner", shared, "lease", lease), "")
			synctest.Wait()
			if a := w.want(200, "GET", of("k"), ""); a.body.Held {
				t.Errorf("released, and %s", a.text)
			}
		}
	})
}

// An acquisition that names a lease of another server extends that lease, whatever this server does for the same owner.
func TestAcquisitionNamesLeaseOfAnotherServer(t *testing.T) {
	inBubble(t, lockhttp.Options{Linger: time.Minute}, func(w *world) {
		other := *w
		other.start()
		defer other.stop()
		for _, shared := range []string{"false", "true"} {
			put := []string{"owner", shared, "shared", shared, "ttl_ms", "600000"}
			granted := other.want(200, "PUT", of("k", put...), "")
			lease := granted.body.Lease
			ctx, cancel := context.WithCancel(context.Background())
			go w.try(ctx, "PUT", of("k", append(put, "wait_ms", "60000")...), "") // waits, or gets a second shared lease
			synctest.Wait()
			cancel()
			synctest.Wait()
			again := w.want(200, "PUT", of("k", append(put, "lease", lease)...), "")
			if again.body.Lease != lease || again.body.Token != granted.body.Token {
				t.Errorf("granted %s, and then %s", granted.text, again.text)
			}
			synctest.Wait()
			w.want(423, "PUT", of("k", "owner", "x"), "")
			w.want(204, "DELETE", of("k", "owner", shared, "lease", lease), "")
			synctest.Wait()
			if a := w.want(200, "GET", of("k"), ""); a.body.Held {
				t.Errorf("released, and %s", a.text)
			}
		}
	})
}

// A stream does not change how long a lease lives: a server that does not know the lease streams its events only if the
// request has the TTL.
func TestWatchAtAnotherServer(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		other := *w
		other.start()
		defer other.stop()
		put := of("k", "owner", "o", "ttl_ms", "600000")
		lease := w.want(200, "PUT", put, "").body.Lease
		named := path("k", "/watch", "owner", "o", "lease", lease)
		for _, target := range []string{path("k", "/watch", "owner", "o"), named} {
			a := other.call("GET", target, "")
			if a.code != 400 || !strings.Contains(a.body.Message, "ttl_ms") {
				t.Errorf("%s: %d %s", target, a.code, a.text)
			}
		}
		time.Sleep(time.Minute) // sleeps: longer than the default TTL, in fake time
		w.want(423, "PUT", of("k", "owner", "x"), "")
		stream := other.events(path("k", "/watch", "owner", "o", "lease", lease, "ttl_ms", "600000"))
		time.Sleep(time.Minute) // sleeps: as above
		w.want(423, "PUT", of("k", "owner", "x"), "")
		again := other.events(named) // this server knows the lease by now
		other.want(204, "DELETE", of("k", "owner", "o", "lease", lease), "")
		for _, events := range []<-chan []string{stream, again} {
			if got := <-events; !slices.Equal(got, []string{"held", "released"}) {
				t.Errorf("%q", got)
			}
		}
	})
}

// A release ends the lease that it names, and the attempt of the same owner.
func TestReleaseOfNamedLeaseBesideAnAttempt(t *testing.T) {
	inBubble(t, lockhttp.Options{Linger: time.Minute}, func(w *world) {
		other := *w
		other.start()
		defer other.stop()
		lease := other.want(200, "PUT", of("k", "owner", "o", "ttl_ms", "600000"), "").body.Lease
		go w.try(context.Background(), "PUT", of("k", "owner", "o", "wait_ms", "60000"), "")
		synctest.Wait()
		w.want(204, "DELETE", of("k", "owner", "o", "lease", lease), "")
		synctest.Wait()
		if a := w.want(200, "GET", of("k"), ""); a.body.Held {
			t.Errorf("released, and %s", a.text)
		}
	})
}

// A late request that names a lease that has ended does not affect a later lease, or attempt, of the same owner.
func TestEndedLeaseNamedBesideALaterOne(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		ended := w.want(200, "PUT", of("k", "owner", "o", "ttl_ms", "1000"), "").body.Lease
		late := func() {
			t.Helper()
			w.want(410, "POST", path("k", "/renew", "owner", "o", "lease", ended), "")
			w.want(410, "DELETE", of("k", "owner", "o", "lease", ended), "")
			synctest.Wait()
		}
		time.Sleep(2 * time.Second) // sleeps: until the lease has expired, in fake time
		w.want(200, "PUT", of("k", "owner", "x", "ttl_ms", "60000"), "")
		waited := make(chan answer, 1)
		go func() {
			a, err := w.try(context.Background(), "PUT", of("k", "owner", "o", "wait_ms", "20000", "ttl_ms", "60000"), "")
			if err != nil {
				t.Error(err)
			}
			waited <- a
		}()
		synctest.Wait()
		late()
		w.want(204, "DELETE", of("k", "owner", "x"), "")
		later := <-waited
		if later.code != 200 {
			t.Fatalf("the attempt: %d %s", later.code, later.text)
		}
		late()
		if a := w.want(200, "GET", of("k"), ""); a.body.Owner != later.body.Lease {
			t.Errorf("%s, want the holder %s", a.text, later.body.Lease)
		}
		renew := path("k", "/renew", "owner", "o", "lease", later.body.Lease)
		if a := w.want(200, "POST", renew, ""); a.body.Token != later.body.Token {
			t.Errorf("renewed %s, want token %s", a.text, later.body.Token)
		}
	})
}

// When a lease has expired as far as a server knows, the server checks with the store, because another server may have
// extended the lease.
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
			a, err := late.try(context.Background(), "POST", path("renewed", "/renew", "owner", "o", "lease", lease["renewed"]),
				"")
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
