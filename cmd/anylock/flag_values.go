package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
)

// A text is the value of a flag or variable that may be missing, which is not the same as empty.
type text struct {
	s     string
	isSet bool
}

// envText is the variable of that name.
func envText(name string) text {
	s, isSet := os.LookupEnv(name)
	return text{s, isSet}
}

func (t *text) String() string { return t.s }

func (t *text) Type() string { return "string" }

func (t *text) Set(s string) error {
	t.s, t.isSet = s, true
	return nil
}

// A seconds is the value of a flag that takes a time as flock(1) does, "2.5", or as Go does, "2m30s".
type seconds struct {
	d     time.Duration
	isSet bool
}

func (s *seconds) String() string {
	if s.d == 0 {
		return "" // shown as no default
	}
	return s.d.String()
}

func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if f, ferr := strconv.ParseFloat(text, 64); ferr == nil {
		if math.IsNaN(f) || f > backend.MaxTTL.Seconds() {
			return fmt.Errorf("must be at most %v", backend.MaxTTL)
		}
		d, err = time.Duration(f*float64(time.Second)), nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("want seconds, as in 2.5, or a duration like 1m30s")
	case d < 0:
		return fmt.Errorf("must not be negative")
	case d > backend.MaxTTL:
		return fmt.Errorf("must be at most %v", backend.MaxTTL)
	}
	s.d, s.isSet = d, true
	return nil
}
