package lock_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// HeldError, Inspect and List show the label of a holder, and owners with the same label are still unique.
func TestWithOwnerLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const address = "10.0.0.7:8080"
		store := memory.NewStore()
		a, b := locker(t, store.Client(), lock.WithOwnerLabel(address)), locker(t, store.Client())
		lease := acquire(t, a, "k")
		_, err := b.TryAcquire(t.Context(), "k")
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Holder.Label() != address || !strings.Contains(err.Error(), "@"+address) {
			t.Errorf("%v does not show the label", err)
		}
		h, err := b.Ops().Inspect(t.Context(), "k")
		if err != nil || h.Label() != address || h.Owner != lease.Owner() {
			t.Errorf("%+v, %v", h, err)
		}
		list, err := b.Ops().List(t.Context(), "")
		if err != nil || len(list) != 1 || list[0].Label() != address {
			t.Errorf("%+v, %v", list, err)
		}
		release(t, lease)
		again := acquire(t, a, "k")
		if again.Owner() == lease.Owner() {
			t.Error("two acquisitions share an owner")
		}
		release(t, again)
		if h, err := b.Ops().Inspect(t.Context(), "k"); err != nil || h.Label() != "" {
			t.Errorf("a free key: %+v, %v", h, err)
		}
	})
}

// The longest label fits in an owner. A label with a blank, a quote, or a character that is not printable is refused.
func TestOwnerLabelIsValidated(t *testing.T) {
	longest := strings.Repeat("é", backend.MaxLabelLen/2)
	for _, good := range []string{"a", "host:1@zone", "köln-3", longest, "http://10.0.0.7:8080/leader?x=1&y"} {
		l, err := lock.New(memory.New(), lock.WithOwnerLabel(good))
		if err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, l, "k")
		if h, err := l.Ops().Inspect(t.Context(), "k"); err != nil || h.Label() != good ||
			len(h.Owner) > backend.MaxOwnerLen {
			t.Errorf("%q: %+v, %v", good, h, err)
		}
		release(t, lease)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", longest + "x", "a b", "a\nb", "a\x00", "\x1b[31m", "\xff", `say"hi"`, "a\u2028b",
		"\u00a0", "a\ufffd"} {
		_, err := lock.New(memory.New(), lock.WithOwnerLabel(bad))
		wantErr(t, err, lock.ErrInvalid)
	}
	for owner, label := range map[string]string{"": "", "somebody": "", "some@body": "", "@x": "",
		strings.Repeat("0", 32): "", strings.Repeat("0", 32) + "@a@b": "a@b"} {
		if got := (lock.Holder{Owner: owner}).Label(); got != label {
			t.Errorf("%q has the label %q", owner, got)
		}
	}
}
