package main

import (
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
	"github.com/anylock/lock/memory"
)

// promising is a store in memory that promises what another store does.
type promising struct {
	*memory.Backend
	guarantees backend.Guarantees
}

func (b promising) Guarantees() backend.Guarantees { return b.guarantees }

// On the stores that free keys at once when the server ends, a new server grants nothing at first: see docs/http.md.
// Package lockhttp recognises them by words of EarlyLoss.
func TestStartDelayOfStores(t *testing.T) {
	for _, d := range shownDrivers() {
		locks, err := lock.New(promising{memory.New(), d.Guarantees})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		server, err := lockhttp.New(locks, lockhttp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := d.Guarantees.Reach == lock.ReachProcess || d.Name == "postgres" // other tests register stores in memory
		if delays := server.StartDelay() > 0; delays != want {
			t.Errorf("%s: a start delay: %v, want %v", d.Name, delays, want)
		}
	}
}
