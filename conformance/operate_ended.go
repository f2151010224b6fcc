package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var operateEndedChecks = []Check{
	{
		Name: "ListFailsAfterItsEnd",
		Rule: "Lister.List of a closed client is ErrClosed, and with an ended context it is the context's error: it never " +
			"lacks keys without an error",
		run: listFailsAfterItsEnd,
	},
	{
		Name: "BreakRefusesBadInput",
		Rule: "Breaker.Break: a bad key is ErrInvalid before any request, a closed client is ErrClosed, an ended context " +
			"is the context's error, and nobody is the empty owner; none of them ends a lease",
		run: breakRefusesBadInput,
	},
}

func listFailsAfterItsEnd(t *trial) {
	lister := t.lister()
	g := t.acquire(t.a, t.key, t.long())
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	// Repeated, because a client that wrongly makes the request races its reply against the end of the context.
	for range 100 {
		if _, err := lister.List(ended, t.key); !errors.Is(err, context.Canceled) {
			t.fatalf("List with an ended context: %v, want context.Canceled", err)
		}
	}
	closed := t.open()
	t.closes(closed)
	_, err := closed.(backend.Lister).List(t.ctx, t.key)
	t.isClosed(err, "List after Close")
	if !t.list(lister, t.key)[t.key] {
		t.fatalf("List lacks a held key, after one with an ended context")
	}
	t.release(g)
}

func breakRefusesBadInput(t *trial) {
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		t.skipf("the store is no Breaker")
	}
	g := t.acquire(t.a, t.key, t.long())
	for what, key := range map[string]string{
		"an empty key":        "",
		"a key of 1025 bytes": strings.Repeat("k", backend.MaxKeyLen+1),
	} {
		if err := breaker.Break(t.ctx, key, g.owner); !errors.Is(err, backend.ErrInvalid) {
			t.errorf("Break of %s: %v, want ErrInvalid", what, err)
		}
	}
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	for range 100 { // for the same reason
		if err := breaker.Break(ended, g.key, g.owner); !errors.Is(err, context.Canceled) {
			t.fatalf("Break with an ended context: %v, want context.Canceled", err)
		}
	}
	closed := t.open()
	t.closes(closed)
	t.isClosed(closed.(backend.Breaker).Break(t.ctx, g.key, g.owner), "Break after Close")
	t.breaksNobody(breaker, g.key, "that a writer holds")
	t.renew(g, t.long())
	t.heldBy(g)
	t.release(g)
	t.breaksNobody(breaker, g.key, "that is free")
	t.free(t.b, g.key, "after bad input to Break, and release")
	if t.g.Shared {
		reader := t.read(t.a, t.newKey(), t.long())
		t.breaksNobody(breaker, reader.key, "that a reader holds")
		t.renew(reader, t.long())
		t.release(reader)
	}
}

// breaksNobody breaks the lease of the empty owner, which no lease has. A store may also reject the owner with
// ErrInvalid.
func (t *trial) breaksNobody(breaker backend.Breaker, key, what string) {
	begun := time.Now()
	err := breaker.Break(t.ctx, key, "")
	if errors.Is(err, backend.ErrInvalid) {
		return
	}
	t.lateOnTimeout(err, begun)
	if took := time.Since(begun); err == nil && took > slow {
		t.tooLate("Break of the empty owner: no error after %v", took)
	}
	t.isLost(err, "Break of the empty owner of a key "+what)
}
