package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errRefused  = errors.New("refused")
	errStarting = errors.New("the server is starting")
	errDial     = errors.New("no route")
)

// classify classifies the errors of these tests. The outcome of errNet is unknown, and another attempt may succeed.
func classify(err error) (Outcome, bool) {
	switch {
	case errors.Is(err, errRefused):
		return Answered, false
	case errors.Is(err, errStarting):
		return Answered, true
	case errors.Is(err, errDial):
		return NotSent, true
	}
	return Unknown, true
}

func TestRepeat(t *testing.T) {
	for name, test := range map[string]struct {
		attempts int
		answers  []error
		requests int
		unsure   bool
		want     error
	}{
		"answered":               {0, []error{nil}, 1, false, nil},
		"refused":                {0, []error{errRefused, nil}, 1, false, errRefused},
		"answered later":         {0, []error{errStarting, errDial, nil}, 3, false, nil},
		"unknown, then answered": {0, []error{errDial, errNet, nil}, 3, true, nil},
		"unknown, then refused":  {0, []error{errNet, errRefused}, 2, true, errRefused},
		"too often":              {3, []error{errDial}, 3, false, errDial},
		"too long":               {0, []error{errNet}, 11, true, errNet},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := Repeat{Timeout: time.Second, Attempts: test.attempts, Pause: fixed, Classify: classify}
			next, requests, reported := script(test.answers...), 0, false
			unsure, err := r.Do(t.Context(), func(unsure bool) error {
				requests++
				if unsure && !test.unsure || reported && !unsure {
					t.Errorf("%s: request %d learns that unsure is %v", name, requests, unsure)
				}
				reported = unsure
				return next(t.Context())
			})
			wantErr(t, name, err, test.want)
			if requests != test.requests || unsure != test.unsure {
				t.Errorf("%s: %d requests, unsure is %v; want %d, %v", name, requests, unsure, test.requests, test.unsure)
			}
		})
	}
}

// If the first attempt takes the whole timeout, a second attempt follows. The end of the context ends the repetition.
func TestRepeatAfterSlowAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Repeat{Timeout: time.Second, Pause: fixed, Classify: classify}
		slow, requests := after(time.Minute, errNet), 0
		_, err := r.Do(t.Context(), func(bool) error { requests++; return slow(t.Context()) })
		if wantErr(t, "slow", err, errNet); requests != 2 {
			t.Errorf("%d requests", requests)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		unsure, err := r.Do(ctx, func(bool) error { return errNet })
		wantErr(t, "ended", err, context.DeadlineExceeded)
		if wantErr(t, "ended", err, errNet); !unsure {
			t.Error("the outcome is known")
		}
	})
}
