package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

func TestPause(t *testing.T) {
	const least, most = 10 * time.Millisecond, time.Second
	var longest time.Duration
	firsts := make(map[time.Duration]bool)
	for range 200 {
		p := Pause{Min: least, Max: most}
		last := least
		for i := range 30 {
			d := p.Next(0)
			if d < least || d > most || d > 3*last {
				t.Fatalf("pause %d of %v after %v", i, d, last)
			}
			if i == 0 {
				firsts[d] = true
			}
			last, longest = d, max(longest, d)
		}
		p.Reset()
		if d := p.Next(0); d > 3*least {
			t.Fatalf("%v after Reset", d)
		}
	}
	if longest < most/2 {
		t.Errorf("the longest pause is %v", longest)
	}
	if len(firsts) < 100 {
		t.Errorf("200 waiters that begin together take %d different first pauses", len(firsts))
	}
}

func TestPauseWithHint(t *testing.T) {
	for range 200 {
		p := Pause{Min: 10 * time.Millisecond, Max: 10 * time.Second}
		for range 20 {
			p.Next(0)
		}
		if d := p.Next(50 * time.Millisecond); d < 10*time.Millisecond || d > 60*time.Millisecond {
			t.Fatalf("%v for a hint of 50ms", d)
		}
		if d := p.Next(time.Hour); d > 10*time.Second {
			t.Fatalf("%v for a hint of 1h", d)
		}
	}
}

func TestPauseOfOddBounds(t *testing.T) {
	for _, p := range []Pause{{}, {Min: time.Second}, {Min: time.Second, Max: time.Second}, {Max: time.Second}} {
		for range 10 {
			if d := p.Next(0); d != p.Min {
				t.Errorf("%+v: %v", p, d)
			}
			if d := p.Next(1); d < 0 || d > p.Min+1 {
				t.Errorf("%+v: %v for a hint", p, d)
			}
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Sleep(t.Context(), time.Second); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errNet)
		defer cancel()
		start = time.Now()
		err := Sleep(ctx, time.Minute)
		wantErr(t, "sleep", err, context.DeadlineExceeded)
		wantErr(t, "sleep", err, errNet)
		if time.Since(start) != time.Second {
			t.Errorf("after %v", time.Since(start))
		}
		wantErr(t, "sleep with an ended context", Sleep(ctx, 0), context.DeadlineExceeded)
	})
}

var fixed = Pause{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond}

// waitFor calls Wait of a Waiter without Sleep.
func waitFor(
	ctx context.Context, pause Pause, patience time.Duration, try func(ctx context.Context) (backend.Lease, error),
) (backend.Lease, error) {
	w := Waiter{Try: try, Pause: pause, Patience: patience}
	return w.Wait(ctx)
}

// poll runs a Waiter with these answers, and with pauses of 100 ms.
func poll(ctx context.Context, patience time.Duration, answers ...error) (l backend.Lease, calls int, err error) {
	next := script(answers...)
	l, err = waitFor(ctx, fixed, patience, func(ctx context.Context) (backend.Lease, error) {
		calls++
		if err := next(ctx); err != nil {
			return nil, err
		}
		return new(Life), nil
	})
	return l, calls, err
}

func TestPoll(t *testing.T) {
	held := &backend.HeldError{}
	for _, test := range []struct {
		name    string
		answers []error
		calls   int
		took    time.Duration
		want    error // nil: a lease
	}{
		{"free", []error{nil}, 1, 0, nil},
		{"busy, then free", []error{held, backend.ErrHeld, held, nil}, 4, 300 * time.Millisecond, nil},
		{"first attempt fails", []error{errNet, nil}, 1, 0, errNet},
		{"grant came too late", []error{held, backend.ErrLost, nil}, 2, 100 * time.Millisecond, backend.ErrLost},
		{"outage outlived", []error{held, errNet, errNet, nil}, 4, 300 * time.Millisecond, nil},
		{"outage too long", []error{held, errNet}, 13, 1200 * time.Millisecond, errNet},
		{"patience counts from the first failure after an answer", append(append([]error{held}, errs(9, errNet)...),
			append([]error{backend.ErrHeld}, append(errs(9, errNet), nil)...)...), 21, 2 * time.Second, nil},
		{"closed while busy", []error{held, backend.ErrClosed, nil}, 2, 100 * time.Millisecond, backend.ErrClosed},
		{"invalid while busy", []error{held, backend.ErrInvalid, nil}, 2, 100 * time.Millisecond, backend.ErrInvalid},
		{"unsupported while busy", []error{held, backend.ErrUnsupported, nil}, 2, 100 * time.Millisecond,
			errors.ErrUnsupported},
		{"the request's own timeout", []error{held, context.DeadlineExceeded, nil}, 3, 200 * time.Millisecond, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				l, calls, err := poll(t.Context(), time.Second, test.answers...)
				wantErr(t, "poll", err, test.want)
				if (l != nil) != (test.want == nil) || calls != test.calls || time.Since(start) != test.took {
					t.Errorf("lease %v, %d calls in %v; want %d in %v", l, calls, time.Since(start), test.calls, test.took)
				}
			})
		})
	}
}

func errs(n int, err error) []error {
	list := make([]error, n)
	for i := range list {
		list[i] = err
	}
	return list
}

func TestPollEndsWithItsContext(t *testing.T) {
	for name, answer := range map[string]error{"busy": backend.ErrHeld, "outage": errNet} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
				defer cancel()
				start := time.Now()
				_, _, err := poll(ctx, time.Hour, backend.ErrHeld, answer)
				wantErr(t, "poll", err, context.DeadlineExceeded)
				if time.Since(start) != 250*time.Millisecond {
					t.Errorf("after %v", time.Since(start))
				}
				if !errors.Is(err, backend.ErrHeld) || errors.Is(err, errNet) != (answer == errNet) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// If the context ends during an attempt, Wait returns the context's error, whatever error the attempt returns.
func TestPollWhoseAttemptIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := waitFor(ctx, fixed, time.Hour, func(ctx context.Context) (backend.Lease, error) {
			<-ctx.Done()
			return nil, errNet
		})
		wantErr(t, "poll", err, context.DeadlineExceeded)
		wantErr(t, "poll", err, errNet)
	})
}

// A Waiter with Sleep makes one attempt after each Sleep; it pauses only after failures. The time that it slept before
// an outage does not count as part of the outage.
func TestWaiterSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, slept := time.Now(), 0
		next := script(backend.ErrHeld, &backend.HeldError{}, errNet, errNet, backend.ErrHeld, nil)
		w := Waiter{
			Pause: fixed, Patience: time.Second,
			Try: func(ctx context.Context) (backend.Lease, error) { return new(Life), next(ctx) },
			Sleep: func(ctx context.Context) error {
				slept++
				return Sleep(ctx, time.Hour)
			},
		}
		if _, err := w.Wait(t.Context()); err != nil || slept != 3 || time.Since(start) != 3*time.Hour+200*time.Millisecond {
			t.Errorf("%v after %v and %d sleeps", err, time.Since(start), slept)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		next = script(backend.ErrHeld)
		_, err := w.Wait(ctx)
		wantErr(t, "wait", err, context.DeadlineExceeded)
		wantErr(t, "wait", err, backend.ErrHeld)
	})
}

// A Try that waits by itself may be refused before it fails. The waiter then survives the failure for its Patience. If
// its context ends, the error matches ErrHeld.
func TestWaiterRefusedWithinTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy error
		tries := 0
		w := Waiter{
			Pause: fixed, Patience: time.Second,
			Try: func(ctx context.Context) (backend.Lease, error) {
				if tries++; tries == 1 {
					busy = &backend.HeldError{Holder: backend.Holder{Owner: "other"}}
				}
				return nil, errNet
			},
			Refused: func() error {
				defer func() { busy = nil }()
				return busy
			},
		}
		_, err := w.Wait(t.Context())
		if wantErr(t, "wait", err, errNet); tries != 12 {
			t.Errorf("%d attempts", tries)
		}
		tries = 0
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = w.Wait(ctx)
		wantErr(t, "wait", err, backend.ErrHeld)
		wantErr(t, "wait", err, context.DeadlineExceeded)
	})
}

// An error of Sleep ends the wait like an error of Try: after Patience, or at once if it cannot pass.
func TestWaiterWhoseSleepFails(t *testing.T) {
	for _, test := range []struct {
		err     error
		passing func(error) bool
		least   time.Duration
		most    time.Duration
	}{
		{errNet, nil, time.Second, 1200 * time.Millisecond},
		{errNet, func(err error) bool { return !errors.Is(err, errNet) }, 0, 0},
		{backend.ErrClosed, nil, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, tries := time.Now(), script(backend.ErrHeld, errNet)
			w := Waiter{
				Pause: fixed, Patience: time.Second, Passing: test.passing,
				Try:   func(ctx context.Context) (backend.Lease, error) { return nil, tries(ctx) },
				Sleep: func(context.Context) error { return test.err },
			}
			_, err := w.Wait(t.Context())
			wantErr(t, "wait", err, test.err)
			if took := time.Since(start); took < test.least || took > test.most {
				t.Errorf("%v: it took %v", test.err, took)
			}
		})
	}
}

// The TTL of the holder is a hint: the next attempt is made when it runs out.
func TestPollTakesTheHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		free := start.Add(500 * time.Millisecond)
		_, err := waitFor(t.Context(), Pause{Min: 10 * time.Millisecond, Max: time.Hour}, 0,
			func(context.Context) (backend.Lease, error) {
				if left := time.Until(free); left > 0 {
					return nil, &backend.HeldError{Holder: backend.Holder{Owner: "o", TTL: left}}
				}
				return new(Life), nil
			})
		if err != nil || time.Since(start) > 520*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
