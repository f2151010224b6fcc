package kit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// An owner cannot forge lines of a log, or send control sequences to a terminal.
func TestHeldErrorIsOneLine(t *testing.T) {
	for owner, want := range map[string]string{
		"0123@host:7":          "held by 0123@host:7 for up to 1s more",
		"Zoë on 日本":            "held by Zoë on 日本 for up to 1s more",
		"a\nlevel=ERROR msg=b": `held by "a\nlevel=ERROR msg=b" for up to 1s more`,
		"\x1b[31mred":          `held by "\x1b[31mred" for up to 1s more`,
		"c1 \u009b31m":         `held by "c1 \u009b31m" for up to 1s more`,
		"rtl \u202e":           `held by "rtl \u202e" for up to 1s more`,
		"not utf-8 \xff":       `held by "not utf-8 \xff" for up to 1s more`,
	} {
		if got := (&backend.HeldError{Holder: backend.Holder{Owner: owner, TTL: time.Second}}).Error(); got != want {
			t.Errorf("%q: %s, want %s", owner, got, want)
		}
	}
}

// A late context has a deadline that has passed, but its timer has not fired yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// If ContextError gets its own result again, the refusal is kept, even if the context's timer is late.
func TestLateTimerKeepsBusy(t *testing.T) {
	ctx := late{context.Background()}
	err := ContextError(ctx, ContextError(ctx, backend.ErrHeld))
	wantErr(t, "late", err, context.DeadlineExceeded)
	wantErr(t, "late", err, backend.ErrHeld)
}

// If ContextError gets its own result again, the refusal is kept, and the cause is shown once.
func TestContextErrorKeepsBusy(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	err := ContextError(ctx, backend.ErrHeld)
	for _, err := range []error{err, ContextError(ctx, err)} {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, backend.ErrHeld) ||
			strings.Count(err.Error(), "shutting down") != 1 {
			t.Errorf("the error is %v", err)
		}
	}
	if err := ContextError(ctx, context.DeadlineExceeded); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is that of another context: %v", err)
	}
}

// Grant refuses a token that package lock could not shift, and releases the lease.
func TestTokensHaveABound(t *testing.T) {
	f := &fakeStore{}
	bubble(t, f, func(t *testing.T, s *Leases) {
		for token, ok := range map[uint64]bool{1<<55 - 1: true, 1 << 55: false, 1<<56 - 1: false, 1 << 63: false} {
			_, err := s.Grant(t.Context(), backend.Request{Key: "k", Owner: "o", TTL: time.Minute},
				Grant{Token: token, Sent: time.Now(), TTL: time.Minute})
			if (err == nil) != ok || !ok && (!errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), "2^55")) {
				t.Errorf("token %d: %v", token, err)
			}
		}
	})
	if n := f.releases.Load(); n == 0 {
		t.Error("what was refused was not given back")
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"held by é 日": "held by é 日", "a\nb\x1b[2J\u202e": `a\nb\x1b[2J\u202e`, "\xff\uFFFD": "\\xff\uFFFD", "'\"`": "'\"`",
		"": "",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// If a second layer calls ContextError for the same context, the result keeps the last error that the first layer has
// joined.
func TestContextErrorKeepsItsReason(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	once := ContextError(ctx, backend.ErrUnavailable)
	twice := ContextError(ctx, once)
	if !errors.Is(twice, context.Canceled) || !errors.Is(twice, backend.ErrUnavailable) || twice.Error() != once.Error() {
		t.Errorf("%v, want %v", twice, once)
	}
}
