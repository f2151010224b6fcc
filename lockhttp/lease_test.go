package lockhttp_test

import (
	"context"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
)

// A lease is acquired, inspected, renewed and released by separate requests.
func TestLifeOfALease(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		first := w.want(200, "PUT", of("deploy", "owner", "a", "ttl_ms", "10000"), "")
		if first.body.Key != "deploy" || first.body.Owner != "a" || first.body.Token == "" {
			t.Errorf("granted %s", first.text)
		}
		if d := first.body.Deadline; d < 9700 || d >= 10_000 {
			t.Errorf("deadline %d ms", d)
		}
		busy := w.want(423, "PUT", of("deploy", "owner", "b"), "")
		if busy.body.Code != "held" || busy.body.Holder == nil || !strings.HasPrefix(busy.body.Holder.Owner, "a~") {
			t.Errorf("refused %s", busy.text)
		}
		time.Sleep(9 * time.Second)
		renewed := w.want(200, "POST", path("deploy", "/renew", "owner", "a", "ttl_ms", "20000"), "")
		if renewed.body.Token != first.body.Token || renewed.body.Deadline < 19_000 {
			t.Errorf("renewed %s", renewed.text)
		}
		time.Sleep(15 * time.Second)
		if a := w.want(200, "GET", of("deploy"), ""); !a.body.Held || a.body.Token != first.body.Token {
			t.Errorf("inspect %s", a.text)
		}
		w.want(410, "DELETE", of("deploy", "owner", "b"), "")
		w.want(204, "DELETE", of("deploy", "owner", "a"), "")
		w.want(410, "DELETE", of("deploy", "owner", "a"), "")
		w.want(410, "POST", path("deploy", "/renew", "owner", "a"), "")
		if a := w.want(200, "GET", of("deploy"), ""); a.body.Held {
			t.Errorf("inspect %s", a.text)
		}
		second := w.want(200, "PUT", of("deploy", "owner", "b"), "")
		if !laterToken(second.body.Token, first.body.Token) {
			t.Errorf("token %s after %s", second.body.Token, first.body.Token)
		}
	})
}

func laterToken(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// The server does not renew leases: unless its client renews it, a lease expires.
func TestLeaseExpires(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "1000"), "")
		time.Sleep(1100 * time.Millisecond)
		w.want(410, "POST", path("k", "/renew", "owner", "a"), "")
		w.want(200, "PUT", of("k", "owner", "b"), "")
		w.want(410, "DELETE", of("k", "owner", "a"), "")
		if _, leases, _, claims, _ := w.server.InUse(); leases != 1 || claims != 1 {
			t.Errorf("%d leases and %d claims are left", leases, claims)
		}
	})
}

// Even if a request has waited, the deadline in the reply counts from the moment before the request was sent.
func TestDeadlineCountsFromTheRequest(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "20000"), "")
		a := w.want(200, "PUT", of("k", "owner", "b", "ttl_ms", "5000", "wait_ms", "30000"), "")
		waited := time.Since(a.sent)
		if waited < 19*time.Second || waited > 21*time.Second {
			t.Fatalf("waited %v", waited)
		}
		end := a.sent.Add(time.Duration(a.body.Deadline) * time.Millisecond)
		if left := time.Until(end); left > 5*time.Second || left < 4*time.Second {
			t.Errorf("%v are left of 5 s", left)
		}
	})
}

// A repeated request gets the same lease, even if the requests are concurrent.
func TestAcquireIsIdempotent(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "holder", "ttl_ms", "3000"), "")
		answers := make(chan answer, 3)
		for range cap(answers) {
			go func() {
				a, err := w.try(context.Background(), "PUT", of("k", "owner", "a", "wait_ms", "20000"), "")
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
		}
		token := ""
		for range cap(answers) {
			a := <-answers
			if a.code != 200 || token != "" && a.body.Token != token {
				t.Errorf("%d %s, want token %s", a.code, a.text, token)
			}
			token = a.body.Token
		}
		if a := w.want(200, "PUT", of("k", "owner", "a"), ""); a.body.Token != token {
			t.Errorf("%s, want token %s", a.text, token)
		}
	})
}

// A waiter whose request ends at its limit keeps its place if it sends another request soon.
func TestWaiterKeepsItsPlace(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "holder", "ttl_ms", "10000"), "")
		w.want(423, "PUT", of("k", "owner", "first", "wait_ms", "2000", "ttl_ms", "1000"), "")
		second := make(chan answer)
		go func() {
			a, _ := w.try(context.Background(), "PUT", of("k", "owner", "second", "wait_ms", "30000", "ttl_ms", "1000"), "")
			second <- a
		}()
		time.Sleep(time.Second)
		first := w.want(200, "PUT", of("k", "owner", "first", "wait_ms", "30000", "ttl_ms", "1000"), "")
		if a := <-second; a.code != 200 || !laterToken(a.body.Token, first.body.Token) {
			t.Errorf("second %d %s, first %s", a.code, a.text, first.text)
		}
	})
}

// A lease that is granted to a disconnected client is released soon, before its TTL has run out.
func TestGoneWaiterLetsTheNextIn(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "holder", "ttl_ms", "1000"), "")
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if _, err := w.try(ctx, "PUT", of("k", "owner", "gone", "wait_ms", "60000", "ttl_ms", "600000"), ""); err == nil {
			t.Fatal("the request did not end")
		}
		start := time.Now()
		w.want(200, "PUT", of("k", "owner", "next", "wait_ms", "60000"), "")
		if waited := time.Since(start); waited > 3*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

// A release ends the wait of the same owner, and any lease that the wait is granted.
func TestReleaseEndsTheWait(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "holder"), "")
		done := make(chan answer)
		go func() {
			a, _ := w.try(context.Background(), "PUT", of("k", "owner", "a", "wait_ms", "60000"), "")
			done <- a
		}()
		synctest.Wait()
		w.want(204, "DELETE", of("k", "owner", "a"), "")
		if a := <-done; a.code != 409 {
			t.Errorf("%d %s", a.code, a.text)
		}
		w.want(204, "DELETE", of("k", "owner", "holder"), "")
		if a := w.want(200, "GET", of("k"), ""); a.body.Held {
			t.Errorf("%s", a.text)
		}
	})
}

// A server that is granted a lease for a disconnected client releases the lease soon. Until then, another server must
// not return that lease to the client.
func TestAnotherServerPromisesNoUnansweredLease(t *testing.T) {
	inBubble(t, lockhttp.Options{Linger: 10 * time.Second}, func(w *world) {
		other := *w
		other.start()
		defer other.stop()
		w.want(200, "PUT", of("k", "owner", "holder", "ttl_ms", "2000"), "")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := w.try(ctx, "PUT", of("k", "owner", "a", "wait_ms", "60000", "ttl_ms", "600000"), ""); err == nil {
			t.Fatal("the request did not end")
		}
		time.Sleep(4 * time.Second) // the first server has been granted the lease
		if busy := other.call("PUT", of("k", "owner", "a", "ttl_ms", "600000"), ""); busy.code == 200 {
			time.Sleep(10 * time.Second) // the first server has released the lease
			if b := other.call("PUT", of("k", "owner", "b"), ""); b.code == 200 {
				t.Errorf("both hold the key: %s and %s", busy.text, b.text)
			}
		}
		again := other.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "600000", "retry", "true"), "")
		time.Sleep(20 * time.Second)
		other.want(423, "PUT", of("k", "owner", "b"), "")
		if a := other.want(200, "GET", of("k"), ""); a.body.Token != again.body.Token {
			t.Errorf("granted %s, and now %s", again.text, a.text)
		}
	})
}

// When the server shuts down, waiting requests get a reply at once.
func TestShutdownAnswersWaiters(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "holder"), "")
		const n = 10
		answers := make(chan answer, n)
		for i := range n {
			go func() {
				a, err := w.try(context.Background(), "PUT", of("k", "owner", string(rune('a'+i)), "wait_ms", "60000"), "")
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := w.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for range n {
			if a := <-answers; a.code != 503 || a.body.Code != "shutting_down" || a.header.Get("Retry-After") == "" {
				t.Errorf("%d %s", a.code, a.text)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
		w.want(503, "PUT", of("k", "owner", "late"), "")
		w.want(503, "GET", "/v1/health", "")
		w.want(200, "POST", path("k", "/renew", "owner", "holder"), "")
	})
}

// hookedMemory is a client that calls granted just before a grant reaches its caller.
type hookedMemory struct {
	sharedMemory
	granted func()
}

func (b hookedMemory) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := b.sharedMemory.Acquire(ctx, r)
	if err == nil {
		b.granted()
	}
	return l, err
}

// A lease that is granted just after its client has disconnected is released soon, too.
func TestGrantJustAfterADisconnect(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.stop()
		var disconnect func()
		w.open = func() backend.Backend { return hookedMemory{sharedMemory{w.store.Client()}, func() { disconnect() }} }
		w.start()
		for i := range 10 {
			var ctx context.Context
			ctx, disconnect = context.WithCancel(context.Background())
			q := httptest.NewRequestWithContext(ctx, "PUT", of(strconv.Itoa(i), "owner", "a", "wait_ms", "60000"), nil)
			w.server.ServeHTTP(httptest.NewRecorder(), q)
			disconnect()
		}
		time.Sleep(3 * time.Second) // sleeps: longer than Options.Linger, in fake time
		if held, err := w.locks.Ops().List(context.Background(), ""); err != nil || len(held) > 0 {
			t.Errorf("%d keys are held (%v)", len(held), err)
		}
	})
}

// slowMemory is a client whose grants take a second, whatever happens to their context.
type slowMemory struct{ sharedMemory }

func (b slowMemory) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	time.Sleep(time.Second) // sleeps: how long the store takes
	return b.sharedMemory.Acquire(context.WithoutCancel(ctx), r)
}

// Leases that the store grants during Shutdown are released, because their clients have got 503.
func TestShutdownReleasesLateGrants(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.stop()
		w.open = func() backend.Backend { return slowMemory{sharedMemory{w.store.Client()}} }
		w.start()
		const n = 100
		answers := make(chan answer, n)
		for i := range n {
			go func() {
				a, err := w.try(context.Background(), "PUT", of(strconv.Itoa(i), "owner", "a"), "")
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
		}
		synctest.Wait()
		if err := w.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for range n {
			if a := <-answers; a.code != 503 {
				t.Errorf("%d %s", a.code, a.text)
			}
		}
		if held, err := w.locks.Ops().List(context.Background(), ""); err != nil || len(held) > 0 {
			t.Errorf("after Shutdown %d keys are held (%v)", len(held), err)
		}
	})
}

// During its start delay the server grants nothing. A request fails, or waits until the end of the delay if its limit
// allows that.
func TestStartDelay(t *testing.T) {
	inBubble(t, lockhttp.Options{StartDelay: 10 * time.Second}, func(w *world) {
		if a := w.want(503, "PUT", of("k", "owner", "a"), ""); a.body.Code != "starting" {
			t.Errorf("%s", a.text)
		}
		w.want(503, "PUT", of("k", "owner", "a", "wait_ms", "9000"), "")
		start := time.Now()
		w.want(200, "PUT", of("k", "owner", "a", "wait_ms", "20000"), "")
		if waited := time.Since(start); waited != 10*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}
