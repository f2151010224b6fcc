package kit

import (
	"context"
	"time"
)

// An Outcome is what the error of a request means for the request.
type Outcome int

const (
	Answered Outcome = iota // the store has answered: it has carried the request out, or refused it
	NotSent                 // the request did not reach the store
	Unknown                 // there is no answer: the request may have been carried out, or may still be
)

// A Repeat repeats a request until it is answered or a limit is reached, so the request must be safe to repeat. Use
// each Repeat only once.
type Repeat struct {
	// Timeout is how long after the first attempt further attempts may begin. A second attempt is always allowed, because
	// the first may have failed only because the process stalled.
	Timeout time.Duration
	// Attempts is the maximum number of attempts; 0 means as many as Timeout allows.
	Attempts int
	// Pause is the time between attempts.
	Pause Pause
	// Classify returns what an error of the request means for the request, and whether another attempt may succeed.
	Classify func(err error) (o Outcome, passing bool)
}

// Do makes the request. It returns the last error of the request, joined with ctx's error if ctx has ended. unsure
// reports whether the outcome of an attempt is unknown: that attempt may still be carried out, even if a later attempt
// was answered. request is called with the value of unsure after the attempts before it.
func (r *Repeat) Do(ctx context.Context, request func(unsure bool) error) (unsure bool, err error) {
	end := time.Now().Add(r.Timeout)
	for n := 1; ; n++ {
		if err = request(unsure); err == nil {
			return unsure, nil
		}
		o, passing := r.Classify(err)
		unsure = unsure || o == Unknown
		switch {
		case o == Answered && !passing:
			return unsure, err
		case Ended(ctx):
			return unsure, ContextError(ctx, err)
		case !passing, n == r.Attempts, n > 1 && !time.Now().Before(end):
			return unsure, err
		}
		if Sleep(ctx, r.Pause.Next(0)) != nil {
			return unsure, ContextError(ctx, err)
		}
	}
}
