package storetest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// Permissions returns the lines of the first code block below "## Permissions" on the page of a store,
// docs/stores/name.md.
func Permissions(t testing.TB, name string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/stores/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Permissions\n")
	_, block, _ := strings.Cut(section, "\n```")
	block, _, _ = strings.Cut(block, "\n```")
	_, block, found := strings.Cut(block, "\n") // without the language
	if !found {
		t.Fatalf("docs/stores/%s.md grants no permissions", name)
	}
	return strings.Split(block, "\n")
}

// UseAll performs all operations of a store's user: acquire, renew, wait, release, inspect, list if the store can, and
// break.
func UseAll(t testing.TB, b backend.Backend, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	first := Acquire(t, b, Try(key, 20*time.Second))
	if _, err := b.Acquire(ctx, Try(key, 20*time.Second)); !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("acquire of a held key: %v", err)
	}
	check("renew", first.Renew(ctx, 25*time.Second))
	r := Wait(key, 20*time.Second)
	next := Start(ctx, b, r)
	if b.Guarantees().FIFO {
		Queued(t, b, key, 1)
	}
	Release(t, first)
	second := Granted(t, next, Soon).Lease
	holder, err := b.Inspect(ctx, key)
	check("inspect", err)
	if holder.Owner != r.Owner {
		t.Fatalf("inspect: %+v, want the owner %s", holder, r.Owner)
	}
	if lister, ok := b.(backend.Lister); ok {
		keys, err := lister.List(ctx, "")
		check("list", err)
		if !slices.Contains(keys, key) {
			t.Fatalf("list: %q without %q", keys, key)
		}
	}
	check("break", b.(backend.Breaker).Break(ctx, key, r.Owner))
	if err := second.Renew(ctx, 20*time.Second); !errors.Is(err, backend.ErrLost) {
		t.Fatalf("renew after break: %v", err)
	}
	_ = second.Release(ctx) // the lease has ended
	Release(t, Acquire(t, b, Wait(key, 20*time.Second)))
}
