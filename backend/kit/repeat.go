package kit

import (
	"context"
	"time"
)

// An Outcome is what the error of a request says about the request.
type Outcome int

const (
	Answered Outcome = iota // the store has answered: it has carried the request out, or refused it
	NotSent                 // the request has not reached the store
	Unknown                 // there is no answer: the request may have been carried out, or may yet be
)

// A Repeat makes a request until it is answered, as far as its limits allow. So the request must be safe to repeat. A
// Repeat may be used once.
type Repeat struct {
	// Timeout is how long after the first attempt others may begin. There is always time for a second attempt, because
	// the first may have failed only because the process stood still.
	Timeout time.Duration
	// Attempts is the number of attempts at most; 0 means as many as Timeout allows.
	Attempts int
	// Pause is the time between attempts.
	Pause Pause
	// Classify says what an error of the request means for it, and whether another attempt may succeed.
	Classify func(err error) (o Outcome, passing bool)
}

// Do makes the request, and returns its last error, or ctx's error joined with that if ctx has ended. unsure reports
// whether the outcome of an attempt was unknown: it may still be carried out, also if a later one was answered. The
// request learns whether that is so of an attempt before.
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
