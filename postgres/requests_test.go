package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// Without contention, an acquire with its token, a renewal and a release are one request each, as the driver declares.
// This includes shared leases and requests that may wait.
func TestOneRequestEach(t *testing.T) {
	t.Parallel()
	s := shared(t)
	said := registered(t).RoundTrips
	for _, c := range []struct {
		params string
		shared bool
		want   driver.RoundTrips
	}{
		{"", false, said},
		{"", true, said},
		{"&lock_durable=true", false, said},
		{"&lock_durable=true", true, said},
	} {
		t.Run(fmt.Sprintf("%s/shared=%v", c.params, c.shared), func(t *testing.T) {
			p := newProxy(t, s.Addr)
			b := opened(t, strings.Replace(s.PostgresURL(), s.Addr, p.Addr, 1)+c.params)
			const ttl = 10 * time.Second
			first, second := acquire(t, b, req("warm 1", ttl)), acquire(t, b, req("warm 2", ttl)) // opens two connections
			release(t, first)
			release(t, second)
			rest(t, b)
			unwatch(b) // otherwise, a pause of this goroutine would make the watcher send a request
			first = acquire(t, b, req("warm 1", ttl))
			release(t, first)
			counted := func(want string, what string, do func()) {
				t.Helper()
				p.requests()
				do()
				if got := fmt.Sprint(p.requests()); got != want {
					t.Errorf("%s: %s requests, want %s", what, got, want)
				}
			}
			for i := range 5 {
				r := req(fmt.Sprint("k", i), ttl)
				r.Wait, r.Shared = i%2 == 1, c.shared // every second request may wait
				var l backend.Lease
				counted(c.want.Acquire, "acquire", func() { l = acquire(t, b, r) })
				if l.Token() == 0 {
					t.Fatal("no token")
				}
				counted(c.want.Renew, "renew", func() {
					if err := l.Renew(context.Background(), ttl); err != nil {
						t.Fatal(err)
					}
				})
				counted(c.want.Release, "release", func() { release(t, l) })
			}
			held := acquire(t, b, req("busy", ttl))
			if c.params == "" {
				counted("1", "refused attempt", func() {
					r := req("busy", ttl)
					r.Shared = c.shared
					if _, err := b.Acquire(context.Background(), r); err == nil {
						t.Error("granted twice")
					}
				})
			}
			release(t, held)
		})
	}
}

func registered(t *testing.T) driver.Driver {
	t.Helper()
	for _, d := range driver.Registered() {
		if d.Name == "postgres" {
			return d
		}
	}
	t.Fatal("not registered")
	panic("unreachable")
}
