package kit

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

func TestValidate(t *testing.T) {
	good := backend.Request{Key: "k", Owner: "o", TTL: time.Second}
	for name, test := range map[string]struct {
		change func(*backend.Request)
		ok     bool
	}{
		"good":         {func(*backend.Request) {}, true},
		"any bytes":    {func(r *backend.Request) { r.Key = "\x00\xff/ \n" }, true},
		"longest key":  {func(r *backend.Request) { r.Key = strings.Repeat("k", backend.MaxKeyLen) }, true},
		"long key":     {func(r *backend.Request) { r.Key = strings.Repeat("k", backend.MaxKeyLen+1) }, false},
		"no key":       {func(r *backend.Request) { r.Key = "" }, false},
		"no owner":     {func(r *backend.Request) { r.Owner = "" }, false},
		"longest name": {func(r *backend.Request) { r.Owner = strings.Repeat("o", backend.MaxOwnerLen) }, true},
		"long owner":   {func(r *backend.Request) { r.Owner = strings.Repeat("o", backend.MaxOwnerLen+1) }, false},
		"no ttl":       {func(r *backend.Request) { r.TTL = 0 }, false},
		"negative":     {func(r *backend.Request) { r.TTL = -time.Second }, false},
		"shortest ttl": {func(r *backend.Request) { r.TTL = 1 }, true},
		"longest ttl":  {func(r *backend.Request) { r.TTL = backend.MaxTTL }, true},
		"long ttl":     {func(r *backend.Request) { r.TTL = backend.MaxTTL + 1 }, false},
	} {
		r := good
		test.change(&r)
		if err := r.Validate(); (err == nil) != test.ok || err != nil && !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewOwner(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{32}@[!-?A-~]{1,64}:[0-9]+$`)
	seen := make(map[string]bool)
	for range 1000 {
		o := backend.NewOwner()
		if !form.MatchString(o) || strings.Count(o, ":") != 1 || len(o) > backend.MaxOwnerLen {
			t.Fatalf("%q", o)
		}
		if seen[o[:16]] || seen[o[16:32]] {
			t.Fatalf("%q shares its random bits", o)
		}
		seen[o[:16]], seen[o[16:32]] = true, true
	}
}

func TestRound(t *testing.T) {
	for _, test := range []struct{ least, unit, ttl, want time.Duration }{
		{0, 0, 1, 1},
		{0, time.Second, 1, time.Second},
		{0, time.Second, time.Second, time.Second},
		{0, time.Second, time.Second + 1, 2 * time.Second},
		{1500 * time.Millisecond, time.Second, 1, 2 * time.Second},
		{2 * time.Second, 0, time.Second, 2 * time.Second},
		{time.Second, time.Millisecond, 1500*time.Microsecond + time.Second, 1002 * time.Millisecond},
		{0, time.Second, backend.MaxTTL, backend.MaxTTL},
	} {
		if got := (backend.Guarantees{MinTTL: test.least, Granularity: test.unit}).Round(test.ttl); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestDeadlineAndMargin(t *testing.T) {
	now := time.Now()
	for ttl, want := range map[time.Duration]time.Duration{
		10 * time.Second: 9898 * time.Millisecond, time.Second: 988 * time.Millisecond,
		time.Millisecond: -1010 * time.Microsecond,
	} {
		if got := backend.Deadline(now, ttl).Sub(now); got != want {
			t.Errorf("%v: %v, want %v", ttl, got, want)
		}
	}
	if backend.Deadline(now, backend.MaxTTL).Before(now.Add(backend.MaxTTL / 100 * 98)) {
		t.Error("the longest TTL overflows")
	}
}

func TestGuaranteesInWords(t *testing.T) {
	for got, want := range map[string]string{
		backend.FencingNone.String(): "none", backend.FencingLoss.String(): "data loss",
		backend.Fencing(9).String(): "unknown(9)",
		backend.WakePoll.String():   "poll", backend.WakePush.String(): "push", backend.Wake(-1).String(): "unknown(-1)",
		backend.BestEffort.String(): "best effort", backend.Linearizable.String(): "linearizable",
		backend.ReachProcess.String(): "process", backend.ReachHost.String(): "host",
		backend.ReachNetwork.String(): "network",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHeldError(t *testing.T) {
	for want, h := range map[string]backend.Holder{
		"held by another owner":                                {},
		"held by o":                                            {Owner: "o"},
		"held by o for up to 1.5s more":                        {Owner: "o", TTL: 1500 * time.Millisecond},
		"held by reader o":                                     {Owner: "o", Shared: 1},
		"held by 3 readers, one of them o":                     {Owner: "o", Shared: 3},
		"held by 3 readers for up to 1.5s more, one of them o": {Owner: "o", Shared: 3, TTL: 1500 * time.Millisecond},
	} {
		err := error(&backend.HeldError{Holder: h})
		if err.Error() != want || !errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if (backend.Holder{}).Held() || !(backend.Holder{Owner: "o"}).Held() {
		t.Error("Held")
	}
}

func TestContextError(t *testing.T) {
	if err := ContextError(t.Context(), errNet); err != nil {
		t.Errorf("a live context: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	caused, cancelCause := context.WithCancelCause(t.Context())
	cancelCause(errNet)
	ofAnother, cancelCause := context.WithCancelCause(t.Context())
	cancelCause(&backend.HeldError{Holder: backend.Holder{Owner: "o"}})
	for _, test := range []struct {
		ctx  context.Context
		last error
		text string
		want []error
	}{
		{canceled, nil, "context canceled", []error{context.Canceled}},
		{canceled, context.Canceled, "context canceled", []error{context.Canceled}},
		{canceled, context.DeadlineExceeded, "context canceled", []error{context.Canceled}},
		{canceled, errNet, "context canceled (last error: connection reset)", []error{context.Canceled, errNet}},
		{caused, nil, "context canceled: connection reset", []error{context.Canceled, errNet}},
		{ofAnother, nil, "context canceled: held by o", []error{context.Canceled}},
	} {
		err := ContextError(test.ctx, test.last)
		if errors.Is(err, backend.ErrHeld) {
			t.Errorf("%v is about another lock", err)
		}
		if err.Error() != test.text {
			t.Errorf("%q, want %q", err, test.text)
		}
		for _, want := range test.want {
			wantErr(t, "context error", err, want)
		}
	}
}

// A lateContext has a deadline that has passed, but its timer has not fired yet.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

func TestContextErrorAtTheDeadline(t *testing.T) {
	late := lateContext{t.Context()}
	if !Ended(late) || Ended(t.Context()) {
		t.Errorf("a context past its deadline has ended: %v; a live one: %v", Ended(late), Ended(t.Context()))
	}
	err := ContextError(late, os.ErrDeadlineExceeded)
	wantErr(t, "a context past its deadline", err, context.DeadlineExceeded)
	l := NewLeases(new(fakeStore), time.Second)
	defer l.Close()
	wantErr(t, "renew", grant(t, l, time.Minute).Renew(late, time.Minute), context.DeadlineExceeded)
}

func TestErrUnsupportedMatchesTheStandardOne(t *testing.T) {
	if !errors.Is(backend.ErrUnsupported, errors.ErrUnsupported) || !Definite(backend.ErrUnsupported) ||
		Definite(errNet) || Definite(backend.ErrLost) {
		t.Error("it does not")
	}
}
