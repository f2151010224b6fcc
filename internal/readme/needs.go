package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// needs are the things that applications need from a store, with the requirement for each.
var needs = []struct {
	words   string
	require lock.Need
}{
	{"processes of one host exclude each other", lock.Need{Reach: lock.ReachHost}},
	{"hosts exclude each other", lock.Need{Reach: lock.ReachNetwork}},
	{"no store failure gives two owners the lock", lock.Need{Linearizable: true}},
	{"the store never drops a live lease", lock.Need{NoEarlyLoss: true}},
	{"a holder learns soon that its lease was removed", lock.Need{ReportsLoss: true}},
	{"tokens stay in order across a restart of the store", lock.Need{Fencing: lock.FencingRestart}},
	{"tokens stay in order even if the store loses its data", lock.Need{Fencing: lock.FencingLoss}},
	{"waiters are served in order of arrival", lock.Need{FIFO: true}},
	{"waiters are notified and do not poll", lock.Need{Push: true}},
	{"readers can share a key", lock.Need{Shared: true}},
	{"TTLs of 100 ms", lock.Need{MinTTL: 100 * time.Millisecond}},
	{"TTLs of one second", lock.Need{MinTTL: time.Second}},
	{"a dead holder's key is free half a second after its TTL", lock.Need{MaxLate: 500 * time.Millisecond}},
}

// writeNeeds writes a table of the stores that meet each requirement, as package lock decides.
func writeNeeds(w io.Writer, drivers []driver.Driver) error {
	var b strings.Builder
	b.WriteString("| what you need | requirement | stores that promise it |\n|---|---|---|\n")
	for _, need := range needs {
		var stores []string
		for _, d := range drivers {
			ok, err := meets(d.Guarantees, need.require)
			if err != nil {
				return err
			}
			if ok {
				stores = append(stores, d.Name)
			}
		}
		switch len(stores) {
		case 0:
			stores = []string{"none"}
		case len(drivers):
			stores = []string{"all"}
		}
		fmt.Fprintf(&b, "| %s | `%v` | %s |\n", need.words, need.require, strings.Join(stores, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// meets reports whether package lock would open a store with these guarantees.
func meets(g backend.Guarantees, n lock.Need) (bool, error) {
	locks, err := lock.New(promise{g}, lock.Require(n))
	if errors.Is(err, lock.ErrUnsupported) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, locks.Close()
}

// A promise is a store that has guarantees and nothing else.
type promise struct{ g backend.Guarantees }

func (p promise) Guarantees() backend.Guarantees { return p.g }
func (promise) Close() error                     { return nil }

func (promise) Acquire(context.Context, backend.Request) (backend.Lease, error) {
	return nil, backend.ErrUnsupported
}

func (promise) Inspect(context.Context, string) (backend.Holder, error) {
	return backend.Holder{}, backend.ErrUnsupported
}
