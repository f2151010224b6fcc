package pgtable

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/storetest"
)

// Without contention, an acquire, a renewal and a release are one round trip each, as the driver declares.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	d, err := driver.Lookup(tableURL(s))
	if err != nil {
		t.Fatal(err)
	}
	p := storetest.NewProxy(t, s.Addr)
	var replies atomic.Int32
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func([]byte) bool {
			replies.Add(1)
			return true
		}
	})
	count := func(do func()) string {
		before := replies.Load()
		do()
		return fmt.Sprint(replies.Load() - before)
	}
	url := strings.Replace(tableURL(s), s.Addr, p.Addr, 1) + "&lock_table=round_trips&lock_max_conns=1"
	b := opened(t, url+patient)
	for i := range 4 {
		var l backend.Lease
		got := driver.RoundTrips{
			Acquire: count(func() { l = acquire(t, b, req("k", time.Minute)) }),
			Renew: count(func() {
				if err := l.Renew(t.Context(), time.Minute); err != nil {
					t.Fatal(err)
				}
			}),
			Release: count(func() { release(t, l) }),
		}
		if i > 1 && got != d.RoundTrips { // the first cycle also prepares the statements, and begins a purge
			t.Errorf("%+v, want %+v", got, d.RoundTrips)
		}
	}
}
