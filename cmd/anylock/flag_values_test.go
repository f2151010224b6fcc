package main

import (
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "2": 2 * time.Second, "2.5": 2500 * time.Millisecond, ".5": 500 * time.Millisecond, "1e1": 10 * time.Second,
		"1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond,
	} {
		var s seconds
		if err := s.Set(text); err != nil || s.d != want || !s.isSet {
			t.Errorf("%q: %v, error %v, want %v", text, s.d, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "-1s", "NaN", "Inf", "-Inf", "1e300", "400000000", "3 s"} {
		var s seconds
		if err := s.Set(text); err == nil {
			t.Errorf("%q was taken for %v", text, s.d)
		}
	}
}

func FuzzSeconds(f *testing.F) {
	for _, text := range []string{"2.5", "1m", "-0", "0x1p62", "9e99", "NaN"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s seconds
		if s.Set(text) == nil && (s.d < 0 || s.d > backend.MaxTTL) {
			t.Errorf("%q was taken for %v", text, s.d)
		}
	})
}

// Whatever the grace, there is time for a renewal before the command must be stopped.
func TestRoomToRenew(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		most := maxGrace(ttl)
		if most >= ttl || most < ttl/2 {
			t.Errorf("ttl %v: the longest grace is %v", ttl, most)
		}
		for _, grace := range []time.Duration{0, ttl / graceShare, most} {
			if left := maxUnrenewed(ttl, grace); left < ttl/20 {
				t.Errorf("ttl %v, grace %v: %v to renew in", ttl, grace, left)
			}
		}
		// Package lock renews after each third of the TTL. The default grace leaves time for that.
		if left := maxUnrenewed(ttl, ttl/graceShare); left < ttl*2/5 {
			t.Errorf("ttl %v, default grace: %v to renew in", ttl, left)
		}
	}
}
