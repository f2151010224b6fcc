package lockhttp_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/lockhttp"
	"github.com/anylock/lock/memory"
)

func newLocks(t *testing.T) *lock.Locker {
	locks, err := lock.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

// events opens a stream. The channel receives the names of all its events at the end of the stream.
func (w *world) events(target string) <-chan []string {
	result := make(chan []string, 1)
	q, err := http.NewRequestWithContext(context.Background(), "GET", "http://anylock"+target, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.client.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%s: %d", target, r.StatusCode)
	}
	go func() {
		defer r.Body.Close()
		var names []string
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				names = append(names, name)
			}
		}
		result <- names
	}()
	return result
}

// The last event of a stream shows how its lease, or the stream, ended.
func TestWatch(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		put := func(key string) {
			w.want(200, "PUT", of(key, "owner", "a", "ttl_ms", "60000"), "")
		}
		put("expires")
		expires := w.events(path("expires", "/watch", "owner", "a"))
		put("released")
		released := w.events(path("released", "/watch", "owner", "a"))
		put("broken")
		broken := w.events(path("broken", "/watch", "owner", "a"))
		put("stays")
		stays := w.events(path("stays", "/watch", "owner", "a"))
		w.want(410, "GET", path("stays", "/watch", "owner", "b"), "")
		w.want(410, "GET", path("free", "/watch", "owner", "a"), "")

		w.want(204, "DELETE", of("released", "owner", "a"), "")
		if got := <-released; !slices.Equal(got, []string{"held", "released"}) {
			t.Errorf("released: %q", got)
		}
		holder := w.want(200, "GET", of("broken"), "").body.Owner
		w.want(204, "POST", path("broken", "/break", "owner", holder), "")
		w.want(410, "POST", path("broken", "/renew", "owner", "a"), "") // memory reports the loss at the renewal
		if got := <-broken; !slices.Equal(got, []string{"held", "lost"}) {
			t.Errorf("broken: %q", got)
		}
		start := time.Now()
		if got := <-expires; !slices.Equal(got, []string{"held", "lost"}) || time.Since(start) > time.Minute {
			t.Errorf("expires: %q after %v", got, time.Since(start))
		}
		put("remains")
		stays2 := w.events(path("remains", "/watch", "owner", "a"))
		synctest.Wait()
		if err := w.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if got := <-stays2; !slices.Equal(got, []string{"held", "shutting_down"}) {
			t.Errorf("stays: %q", got)
		}
		if got := <-stays; !slices.Equal(got, []string{"held", "lost"}) { // a minute has passed
			t.Errorf("stays: %q", got)
		}
	})
}

// A stream over HTTP/2 lasts as long as the lease, with long pauses between its events.
func TestWatchOverHTTP2(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.useHTTP2()
		w.want(200, "PUT", of("long", "owner", "a", "ttl_ms", "600000"), "")
		released := w.events(path("long", "/watch", "owner", "a"))
		time.Sleep(95 * time.Second)
		w.want(204, "DELETE", of("long", "owner", "a"), "")
		if got := <-released; !slices.Equal(got, []string{"held", "released"}) {
			t.Errorf("released: %q", got)
		}
	})
}

// The status shows holders, waiters and losses, and the metrics count them.
func TestStatusAndMetrics(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("job", "owner", "a", "ttl_ms", "60000"), "")
		w.want(200, "PUT", of("brief", "owner", "b", "ttl_ms", "1000"), "")
		go w.try(context.Background(), "PUT", of("job", "owner", "c", "wait_ms", "20000"), "")
		time.Sleep(2 * time.Second)
		status := w.want(200, "GET", "/v1/status", "").text
		for _, want := range []string{`"waiters":1`, `"losses":1`, `"owner":"a"`, `"held_ms":2000`, `"owner":"b"`} {
			if !strings.Contains(status, want) {
				t.Errorf("%s is not in %s", want, status)
			}
		}
		metrics := w.want(200, "GET", "/metrics", "").text
		for _, want := range []string{
			"anylock_leases 1\n", "anylock_waiters 1\n", "anylock_losses_total 1\n", "anylock_grants_total 2\n",
			`anylock_http_requests_total{path="/v1/locks/{key}",method="PUT",code="200"} 2`,
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("%s is not in\n%s", want, metrics)
			}
		}
		time.Sleep(time.Minute)
	})
}
