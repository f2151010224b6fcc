package main

import (
	"testing"
	"testing/synctest"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// During a switch, a command may run under a lock of a pair, and want the same key at one of the two stores. There the
// pair's owner may have a number.
func TestKeyHeldThroughPair(t *testing.T) {
	for owner, want := range map[string]bool{"a@web:1": true, "a@web:1#2": true, "a@web:12": false, "b@web:1": false} {
		t.Run(owner, func(t *testing.T) {
			t.Setenv(heldVariable, "x@web:2 a@web:1")
			synctest.Test(t, func(t *testing.T) {
				locks, err := lock.New(memory.New())
				if err != nil {
					t.Fatal(err)
				}
				defer locks.Close()
				lease, err := locks.Acquire(t.Context(), "k", lock.WithOwner(owner))
				if err != nil {
					t.Fatal(err)
				}
				defer lease.Release(t.Context())
				if endless, err := (&runner{key: "k"}).heldOutside(t.Context(), locks); endless != want || err != nil {
					t.Errorf("held outside: %v, %v; want %v", endless, err, want)
				}
			})
		})
	}
}
