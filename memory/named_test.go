package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/memory"
)

func open(t *testing.T, url string) backend.Backend {
	t.Helper()
	b, name, err := driver.Open(t.Context(), url)
	if err != nil || name != "memory" {
		t.Fatalf("open %s: %v (driver %q)", url, err, name)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestNamesShareAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := open(t, "memory://shared"), open(t, "memory://share%64")
		upper, own1, own2 := open(t, "memory://Shared"), open(t, "memory:"), open(t, "memory:")
		l := mustTry(t, a, "k", time.Minute)
		if _, err := try(b, "k", time.Minute); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("same name: %v, want held", err)
		}
		for _, other := range []backend.Backend{upper, own1, own2} {
			mustTry(t, other, "k", time.Minute)
		}
		upper.Close()
		own1.Close()
		own2.Close()

		// The lease outlives the last client, as on a server. Once it has ended, the store is forgotten.
		a.Close()
		b.Close()
		again := open(t, "memory://shared")
		if _, err := try(again, "k", time.Minute); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("opened again: %v, want held until the TTL ends", err)
		}
		time.Sleep(time.Minute + time.Second) // not a minute: the timers of the other stores run at that instant
		l2 := mustTry(t, again, "k", time.Minute)
		if l2.Token() <= l.Token() {
			t.Errorf("token %d after %d", l2.Token(), l.Token())
		}
		l2.Release(t.Context())
		again.Close()
		if n := memory.Named(); n != 0 {
			t.Errorf("%d named stores are left", n)
		}
		last := mustTry(t, open(t, "memory://shared"), "k", time.Minute)
		if last.Token() <= l2.Token() {
			t.Errorf("token %d of a new store after %d", last.Token(), l2.Token())
		}
		time.Sleep(2 * time.Minute) // not a minute: the end of the test would race the timer of the store
	})
	if n := memory.Named(); n != 0 {
		t.Errorf("%d named stores are left", n)
	}
}

func TestBadURLs(t *testing.T) {
	for _, url := range []string{
		"memory:name", "memory://name/path", "memory://user@name", "memory://a,b", "memory://a?lock_x=1", "memory://a?b=c",
		"memory://%zz", "memory://a#b", "memory:?x=1",
	} {
		if b, _, err := driver.Open(t.Context(), url); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", url, err)
			if b != nil {
				b.Close()
			}
		}
	}
}
