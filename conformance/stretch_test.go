package conformance

import (
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// For every stretch up to mostStretched, the store grants all TTLs that checks request.
func TestStretchedTTLsCanBeHad(t *testing.T) {
	for _, test := range []struct {
		least, most, unit, lateness time.Duration // of TTLs, and MaxLate
		want                        int
	}{
		{10 * time.Millisecond, 0, 1, 20 * time.Millisecond, 16},
		{4 * time.Second, 0, time.Millisecond, 40 * time.Second, 16},
		{time.Second, time.Minute, time.Millisecond, 500 * time.Millisecond, 8}, // the guarantees of Redlock
		{time.Second, 45 * time.Second, time.Second, 0, 4},
		{5 * time.Second, 30 * time.Second, 1, 0, 0},
		{5 * time.Second, 7 * time.Second, time.Second, 0, 0},
	} {
		g := backend.Guarantees{MinTTL: test.least, MaxTTL: test.most, Granularity: test.unit, MaxLate: test.lateness}
		stretch := mostStretched(g, Harness{ArrivalDelay: 200 * time.Millisecond})
		if stretch != test.want {
			t.Errorf("TTLs from %v to %v: up to %d times the usual, want %d", test.least, test.most, stretch, test.want)
		}
		for n := 1; n <= stretch; n *= 2 {
			if u := (&trial{g: g, stretch: n}); 2*u.long() > u.longest() || 4*u.short() > u.longest() ||
				3*u.short()+g.MaxLate >= u.long() {
				t.Errorf("TTLs from %v to %v, at %d times the usual: short %v, long %v", test.least, test.most, n, u.short(),
					u.long())
			}
		}
	}
}
