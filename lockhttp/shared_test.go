package lockhttp_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
	"github.com/anylock/lock/memory"
)

// Several shared leases hold a key at the same time, and exclude every lease that is not shared.
func TestSharedLeases(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		first := w.want(200, "PUT", of("k", "owner", "r1", "shared", "true"), "")
		second := w.want(200, "PUT", of("k", "owner", "r2", "shared", "true", "ttl_ms", "60000"), "")
		if first.body.Shared != true || second.body.Shared != true {
			t.Errorf("granted %s and %s", first.text, second.text)
		}
		busy := w.want(423, "PUT", of("k", "owner", "w"), "")
		if h := busy.body.Holder; h == nil || h.Shared != 2 || h.Owner != second.body.Lease {
			t.Errorf("refused %s, want 2 readers, the last %s", busy.text, second.body.Lease)
		}
		writer := make(chan answer)
		go func() {
			a, err := w.try(context.Background(), "PUT", of("k", "owner", "w2", "wait_ms", "30000"), "")
			if err != nil {
				t.Error(err)
			}
			writer <- a
		}()
		synctest.Wait()
		w.want(423, "PUT", of("k", "owner", "r3", "shared", "true"), "") // behind a waiting writer
		w.want(200, "POST", path("k", "/renew", "owner", "r1"), "")
		w.want(204, "DELETE", of("k", "owner", "r1"), "")
		if a := w.want(200, "GET", of("k"), ""); a.body.Shared != 1.0 || a.body.Owner != second.body.Lease {
			t.Errorf("inspect %s", a.text)
		}
		w.want(410, "POST", path("k", "/renew", "owner", "r1"), "")
		w.want(204, "DELETE", of("k", "owner", "r2"), "")
		granted := <-writer
		if granted.code != 200 || granted.body.Shared != false || !laterToken(granted.body.Token, second.body.Token) {
			t.Errorf("the writer got %d %s", granted.code, granted.text)
		}
		w.want(423, "PUT", of("k", "owner", "r4", "shared", "true"), "")
		w.want(400, "PUT", of("k", "owner", "w2", "shared", "true"), "") // the owner holds the other mode
		w.want(400, "PUT", of("k", "owner", "r5", "shared", "yes"), "")
		w.want(400, "PUT", of("k", "owner", "r5", "retry", "yes"), "")
	})
}

// A restarted server continues each of several shared leases if the request has the name from the first reply. No
// client can continue the lease of another client.
func TestRestartKeepsSharedLeases(t *testing.T) {
	const ci, other = "token-of-ci-0123456789", "token-of-other-0123456789"
	o := lockhttp.Options{Clients: []lockhttp.Client{
		{Name: "ci", Token: ci, Rights: rights("", lockhttp.Take)},
		{Name: "other", Token: other, Rights: rights("", lockhttp.Take)},
	}}
	inBubble(t, o, func(w *world) {
		w.token = ci
		var leases []string
		for i := range 3 {
			a := w.want(200, "PUT", of("k", "owner", strconv.Itoa(i), "shared", "true", "ttl_ms", strconv.Itoa(10_000+i)), "")
			leases = append(leases, a.body.Lease)
		}
		w.stop()
		w.start()
		time.Sleep(5 * time.Second)
		for i, lease := range leases {
			a := w.want(200, "POST", path("k", "/renew", "owner", strconv.Itoa(i), "lease", lease, "ttl_ms", "10000"), "")
			if a.body.Shared != true || a.body.Lease != lease {
				t.Errorf("renewed %s, want %s", a.text, lease)
			}
		}
		w.stop()
		w.start()
		w.want(400, "DELETE", of("k", "owner", "0", "lease", leases[1]), "")
		w.token = other
		w.want(400, "DELETE", of("k", "owner", "0", "lease", leases[0]), "")
		w.want(400, "DELETE", of("k", "owner", "0@ci", "lease", leases[0]), "")
		w.token = ci
		time.Sleep(6 * time.Second)
		for i, lease := range leases {
			w.want(204, "DELETE", of("k", "owner", strconv.Itoa(i), "lease", lease), "")
			w.want(410, "DELETE", of("k", "owner", strconv.Itoa(i), "lease", lease), "")
		}
		w.want(200, "PUT", of("k", "owner", "w"), "")
		w.want(410, "POST", path("k", "/renew", "owner", "0", "lease", leases[0]), "")
	})
}

// A restarted server continues the shared lease that ends last, even if the request does not have its name.
func TestRestartFindsTheLastReader(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		first := w.want(200, "PUT", of("k", "owner", "r", "shared", "true", "label", "web-3", "ttl_ms", "10000"), "")
		w.stop()
		w.start()
		a := w.want(200, "POST", path("k", "/renew", "owner", "r", "ttl_ms", "10000"), "")
		if a.body.Lease != first.body.Lease || a.body.Label != "web-3" || a.body.Shared != true {
			t.Errorf("renewed %s, want %s", a.text, first.text)
		}
		w.stop()
		w.start()
		go w.try(context.Background(), "PUT", of("k", "owner", "w", "wait_ms", "30000"), "")
		synctest.Wait()
		// A shared request does not overtake the writer, so the reply can only be the lease that the client holds already.
		a = w.want(200, "PUT", of("k", "owner", "r", "shared", "true", "lease", first.body.Lease, "ttl_ms", "10000"), "")
		if a.body.Lease != first.body.Lease || a.body.Label != "web-3" {
			t.Errorf("repeated %s, want %s", a.text, first.text)
		}
		w.want(204, "DELETE", of("k", "owner", "r"), "")
		time.Sleep(time.Minute)
	})
}

// If the store has no shared leases, a shared request is refused, and leaves nothing behind.
func TestSharedUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memory.NewStore(), options: lockhttp.Options{StartDelay: -1}}
		w.open = func() backend.Backend { return exclusiveMemory{sharedMemory{w.store.Client()}} }
		w.start()
		defer w.stop()
		if a := w.want(501, "PUT", of("k", "owner", "r", "shared", "true"), ""); a.body.Code != "unsupported" {
			t.Errorf("%s", a.text)
		}
		w.want(501, "PUT", of("k", "owner", "r", "shared", "true", "wait_ms", "1000"), "")
		if _, leases, _, claims, _ := w.server.InUse(); leases != 0 || claims != 0 {
			t.Errorf("%d leases, %d claims are left", leases, claims)
		}
		w.want(200, "PUT", of("k", "owner", "r"), "")
	})
}

// exclusiveMemory is a store without shared leases.
type exclusiveMemory struct{ sharedMemory }

func (b exclusiveMemory) Guarantees() backend.Guarantees {
	g := b.sharedMemory.Guarantees()
	g.Shared = false
	return g
}

// Wherever a holder is shown, its label is shown too, for clients of this server and of the library.
func TestLabels(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		const label = "http://10.0.0.7:8080/a?b=c&d"
		a := w.want(200, "PUT", of("k", "owner", "o", "label", label), "")
		library, err := lock.New(w.store.Client(), lock.WithOwnerLabel("batch-2:871"))
		if err != nil {
			t.Fatal(err)
		}
		defer library.Close()
		lease, err := library.Acquire(t.Context(), "lib")
		if err != nil {
			t.Fatal(err)
		}
		if a.body.Label != label {
			t.Errorf("granted %s", a.text)
		}
		for key, want := range map[string]string{"k": label, "lib": "batch-2:871"} {
			if got := w.want(200, "GET", of(key), "").body.Label; got != want {
				t.Errorf("%s: inspect shows %q, want %q", key, got, want)
			}
			if got := w.want(423, "PUT", of(key, "owner", "x"), "").body.Holder.Label; got != want {
				t.Errorf("%s: a refusal shows %q, want %q", key, got, want)
			}
		}
		for _, l := range w.want(200, "GET", "/v1/locks", "").body.Locks {
			if l.Label == "" {
				t.Errorf("%s is listed without its label", l.Key)
			}
		}
		if status := w.want(200, "GET", "/v1/status", "").text; !strings.Contains(status, `"label":"`+label+`"`) {
			t.Errorf("status %s", status)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"a~b", "a b", `"`, "\x00", "\xff", strings.Repeat("l", 41)} {
			w.want(400, "PUT", of("bad", "owner", "o", "label", bad), "")
		}
		w.want(200, "PUT", of("long", "owner", strings.Repeat("o", 128), "label", strings.Repeat("é", 20)), "")
	})
}

// A client cannot choose an owner such that its lease looks like another client's.
func TestNamesCannotBeForged(t *testing.T) {
	const ci, evil = "token-of-ci-0123456789", "token-of-evil-0123456789"
	o := lockhttp.Options{Clients: []lockhttp.Client{
		{Name: "ci", Token: ci, Rights: rights("", lockhttp.Take)},
		{Name: "evil", Token: evil, Rights: rights("", lockhttp.Take)},
	}}
	inBubble(t, o, func(w *world) {
		w.token = ci
		victim := w.want(200, "PUT", of("k", "owner", "job", "label", "l", "ttl_ms", "600000"), "").body.Lease
		w.stop()
		w.start()
		for _, owner := range []string{"job", "job@ci", "job@ci~l", "job@ci~l~", victim,
			strings.TrimPrefix(victim, "job@ci~"), "job@ci~l~x", "~"} {
			w.token = evil
			w.want(410, "DELETE", of("k", "owner", owner), "")
			w.want(400, "DELETE", of("k", "owner", owner, "lease", victim), "")
			key := "trap/" + owner
			w.want(200, "PUT", of(key, "owner", owner, "ttl_ms", "600000"), "")
			w.stop()
			w.start()
			w.token = ci
			w.want(410, "DELETE", of(key, "owner", "job"), "") // ci must not act on evil's lease either
		}
		w.want(204, "DELETE", of("k", "owner", "job"), "")
	})
}
