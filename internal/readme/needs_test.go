package main

import (
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

func TestNeeds(t *testing.T) {
	drivers := []driver.Driver{
		{Name: "strong", Guarantees: backend.Guarantees{
			MinTTL: time.Second, MaxLate: time.Minute, EnforcedBy: "x", Fencing: backend.FencingRestart,
			Wake: backend.WakePush, Consistency: backend.Linearizable, Reach: backend.ReachNetwork,
		}},
		{Name: "weak", Guarantees: backend.Guarantees{EarlyLoss: "always", EnforcedBy: "x"}},
	}
	var b strings.Builder
	if err := writeNeeds(&b, drivers); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| no store failure gives two owners the lock | `linearizable` | strong |\n",
		"| the store never drops a live lease | `no-early-loss` | strong |\n",
		"| tokens stay in order across a restart of the store | `fencing=restart` | strong |\n",
		"| tokens stay in order even if the store loses its data | `fencing=loss` | none |\n",
		"| waiters are served in order of arrival | `fifo` | none |\n",
		"| TTLs of 100 ms | `min-ttl=100ms` | weak |\n",
		"| TTLs of one second | `min-ttl=1s` | all |\n",
		"| a dead holder's key is free half a second after its TTL | `max-late=500ms` | weak |\n",
	} {
		if !strings.Contains(b.String(), row) {
			t.Errorf("no row %q in\n%s", row, b.String())
		}
	}
}
