package lockhttp_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
)

// A restarted server continues the leases that the store has kept.
func TestRestartKeepsLeases(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		first := w.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "10000"), "")
		w.want(200, "PUT", of("other", "owner", "a", "ttl_ms", "10000"), "")
		w.stop()
		w.start()
		w.want(423, "PUT", of("k", "owner", "b"), "")
		w.want(423, "PUT", of("k", "owner", "a"), "") // a server that is still alive might release the lease
		lease := first.body.Lease
		a := w.want(200, "PUT", of("k", "owner", "a", "lease", lease, "ttl_ms", "10000", "wait_ms", "5000"), "")
		if a.body.Token != first.body.Token {
			t.Errorf("%s, want token %s", a.text, first.body.Token)
		}
		w.stop()
		w.start()
		time.Sleep(5 * time.Second)
		if a := w.want(200, "POST", path("k", "/renew", "owner", "a", "ttl_ms", "10000"),
			""); a.body.Token != first.body.Token {
			t.Errorf("%s, want token %s", a.text, first.body.Token)
		}
		time.Sleep(6 * time.Second)
		w.want(410, "POST", path("other", "/renew", "owner", "a"), "") // it has expired
		w.stop()
		w.start()
		w.want(410, "DELETE", of("k", "owner", "b"), "")
		w.want(204, "DELETE", of("k", "owner", "a"), "")
		w.want(200, "PUT", of("k", "owner", "b"), "")
	})
}

// A resumer counts the requests to resume leases, each of which takes a second.
type resumer struct {
	sharedMemory
	n *atomic.Int32
}

func (r resumer) Resume(ctx context.Context, request backend.Request) (backend.Lease, error) {
	r.n.Add(1)
	time.Sleep(time.Second) // sleeps: the store is slow, in the time of the bubble
	return r.sharedMemory.Resume(ctx, request)
}

// Renewals that meet after a restart resume the lease once, and a server with its full number of leases does not extend
// a lease that it refuses.
func TestRestartResumesLeaseOnce(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "10000"), "")
		w.want(200, "PUT", of("other", "owner", "b", "ttl_ms", "10000"), "")
		w.stop()
		w.options.MaxLeases = 1
		var n atomic.Int32
		w.open = func() backend.Backend { return resumer{sharedMemory{w.store.Client()}, &n} }
		w.start()
		var renewals sync.WaitGroup
		for range 4 {
			renewals.Go(func() { w.want(200, "POST", path("k", "/renew", "owner", "a", "ttl_ms", "10000"), "") })
		}
		renewals.Wait()
		if n := n.Load(); n != 1 {
			t.Errorf("the lease was resumed %d times", n)
		}
		w.want(429, "POST", path("other", "/renew", "owner", "b"), "")
		if n := n.Load(); n != 1 {
			t.Error("a lease was resumed that the server has no room for")
		}
		w.want(204, "DELETE", of("k", "owner", "a"), "")
	})
}

// A release and another request that meet after a restart do not both resume the lease: the lease is released, and not
// reported as lost later.
func TestRestartReleasesLeaseOnce(t *testing.T) {
	renew := path("k", "/renew", "owner", "a", "ttl_ms", "10000")
	release := of("k", "owner", "a")
	for _, releaseFirst := range []bool{false, true} {
		inBubble(t, lockhttp.Options{}, func(w *world) {
			w.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "10000"), "")
			w.stop()
			w.open = func() backend.Backend { return resumer{sharedMemory{w.store.Client()}, new(atomic.Int32)} }
			w.start()
			var requests sync.WaitGroup
			requests.Go(func() {
				if releaseFirst {
					time.Sleep(time.Second / 2) // sleeps: the release is under way, in fake time
				}
				if a := w.call("POST", renew, ""); a.code != 200 && a.code != 410 {
					t.Errorf("renewal: %d %s", a.code, a.text)
				}
			})
			if !releaseFirst {
				time.Sleep(time.Second / 2) // sleeps: the renewal is under way, in fake time
			}
			w.want(204, "DELETE", release, "")
			requests.Wait()
			time.Sleep(20 * time.Second) // sleeps: longer than the TTL, in fake time
			if metrics := w.want(200, "GET", "/metrics", "").text; !strings.Contains(metrics, "anylock_losses_total 0\n") {
				t.Errorf("release first: %v: a released lease was reported as lost", releaseFirst)
			}
			if _, leases, _, claims, _ := w.server.InUse(); leases != 0 || claims != 0 {
				t.Errorf("release first: %v: %d leases and %d claims are left", releaseFirst, leases, claims)
			}
		})
	}
}

// A stream that the server has no room for does not resume its lease, and so does not extend it.
func TestRefusedStreamResumesNothing(t *testing.T) {
	inBubble(t, lockhttp.Options{MaxWatchers: 1}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "10000"), "")
		w.want(200, "PUT", of("other", "owner", "b", "ttl_ms", "10000"), "")
		w.stop()
		var n atomic.Int32
		w.open = func() backend.Backend { return resumer{sharedMemory{w.store.Client()}, &n} }
		w.start()
		stream := w.events(path("k", "/watch", "owner", "a", "ttl_ms", "10000"))
		w.want(429, "GET", path("other", "/watch", "owner", "b", "ttl_ms", "10000"), "")
		if n := n.Load(); n != 1 {
			t.Errorf("%d leases were resumed, want 1", n)
		}
		w.want(204, "DELETE", of("k", "owner", "a"), "")
		<-stream
	})
}
