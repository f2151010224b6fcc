package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
)

// A text is the value of a flag or variable. isSet distinguishes an empty value from a missing one.
type text struct {
	s     string
	isSet bool
}

// envText returns the environment variable of that name.
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

// A seconds is the value of a flag for a duration: "2.5" in seconds, as in flock(1), or "2m30s", as in Go.
type seconds struct {
	d     time.Duration
	isSet bool
}

func (s *seconds) String() string {
	if s.d == 0 {
		return "" // so that the help shows no default
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
