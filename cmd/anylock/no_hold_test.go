package main

import (
	"testing"
	"time"
)

// --max-hold 0 sets no limit: it does not shorten the TTL.
func TestNoMaxHold(t *testing.T) {
	r := &runner{ttl: seconds{d: 30 * time.Second}, maxHold: seconds{isSet: true}, minHold: seconds{isSet: true}}
	if err := r.check([]string{"key", "true"}); err != nil {
		t.Fatal(err)
	}
	if r.ttl.d != 30*time.Second {
		t.Errorf("ttl %v", r.ttl.d)
	}
}
