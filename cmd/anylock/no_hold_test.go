package main

import (
	"testing"
	"time"
)

// A hold of 0 is none: the flag leaves the TTL and the grace alone.
func TestNoMaxHold(t *testing.T) {
	r := &runner{ttl: seconds{d: 30 * time.Second}, maxHold: seconds{isSet: true}, minHold: seconds{isSet: true}}
	if err := r.check([]string{"key", "true"}); err != nil {
		t.Fatal(err)
	}
	if r.ttl.d != 30*time.Second {
		t.Errorf("ttl %v", r.ttl.d)
	}
}
