package backend

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := Request{Key: "k", Owner: "o", TTL: time.Second}
	for name, test := range map[string]struct {
		change func(*Request)
		ok     bool
	}{
		"good":         {func(*Request) {}, true},
		"any bytes":    {func(r *Request) { r.Key = "\x00\xff/ \n" }, true},
		"longest key":  {func(r *Request) { r.Key = strings.Repeat("k", MaxKeyLen) }, true},
		"long key":     {func(r *Request) { r.Key = strings.Repeat("k", MaxKeyLen+1) }, false},
		"no key":       {func(r *Request) { r.Key = "" }, false},
		"no owner":     {func(r *Request) { r.Owner = "" }, false},
		"longest name": {func(r *Request) { r.Owner = strings.Repeat("o", MaxOwnerLen) }, true},
		"long owner":   {func(r *Request) { r.Owner = strings.Repeat("o", MaxOwnerLen+1) }, false},
		"no ttl":       {func(r *Request) { r.TTL = 0 }, false},
		"negative":     {func(r *Request) { r.TTL = -time.Second }, false},
		"shortest ttl": {func(r *Request) { r.TTL = 1 }, true},
		"longest ttl":  {func(r *Request) { r.TTL = MaxTTL }, true},
		"long ttl":     {func(r *Request) { r.TTL = MaxTTL + 1 }, false},
	} {
		r := good
		test.change(&r)
		if err := r.Validate(); (err == nil) != test.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewOwner(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{32}@[!-?A-~]{1,64}:[0-9]+$`)
	seen := make(map[string]bool)
	for range 1000 {
		o := NewOwner()
		if !form.MatchString(o) || strings.Count(o, ":") != 1 || len(o) > MaxOwnerLen {
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
		{0, time.Second, MaxTTL, MaxTTL},
	} {
		if got := (Guarantees{MinTTL: test.least, Granularity: test.unit}).Round(test.ttl); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestDeadlineAndMargin(t *testing.T) {
	now := time.Now()
	for ttl, want := range map[time.Duration]time.Duration{
		10 * time.Second: 9898 * time.Millisecond, time.Second: 988 * time.Millisecond, time.Millisecond: -1010 * time.Microsecond,
	} {
		if got := Deadline(now, ttl).Sub(now); got != want {
			t.Errorf("%v: %v, want %v", ttl, got, want)
		}
	}
	if Deadline(now, MaxTTL).Before(now.Add(MaxTTL / 100 * 98)) {
		t.Error("the longest TTL overflows")
	}
}

func TestGuaranteesInWords(t *testing.T) {
	for got, want := range map[string]string{
		FencingNone.String(): "none", FencingLoss.String(): "data loss", Fencing(9).String(): "unknown(9)",
		WakePoll.String(): "poll", WakePush.String(): "push", Wake(-1).String(): "unknown(-1)",
		BestEffort.String(): "best effort", Linearizable.String(): "linearizable",
		ReachProcess.String(): "process", ReachHost.String(): "host", ReachNetwork.String(): "network",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHeldError(t *testing.T) {
	for want, h := range map[string]Holder{
		"held by another owner":         {},
		"held by o":                     {Owner: "o"},
		"held by o for up to 1.5s more": {Owner: "o", TTL: 1500 * time.Millisecond},
	} {
		err := error(&HeldError{h})
		if err.Error() != want || !errors.Is(err, ErrHeld) || errors.Is(err, ErrLost) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if (Holder{}).Held() || !(Holder{Owner: "o"}).Held() {
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
	cancelCause(&HeldError{Holder{Owner: "o"}})
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
		if errors.Is(err, ErrHeld) {
			t.Errorf("%v tells of another lock", err)
		}
		if err.Error() != test.text {
			t.Errorf("%q, want %q", err, test.text)
		}
		for _, want := range test.want {
			wantErr(t, "context error", err, want)
		}
	}
}

// A lateContext is one whose deadline has passed and whose timer has not run yet.
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
	if !errors.Is(ErrUnsupported, errors.ErrUnsupported) || !Definite(ErrUnsupported) || Definite(errNet) || Definite(ErrLost) {
		t.Error("it does not")
	}
}
