package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var inputChecks = []Check{
	{
		Name: "BadInputIsRefused",
		Rule: "bad input is ErrInvalid before any request, and leaves nothing behind",
		run:  badInputIsRefused,
	},
	{
		Name: "ExtremesAreAccepted",
		Rule: "every store takes TTLs from a nanosecond to Guarantees.MaxTTL, also while others wait, and owners up to " +
			"MaxOwnerLen, of any characters, also with the longest key",
		run: extremesAreAccepted,
	},
}

func badInputIsRefused(t *trial) {
	good := backend.Request{Key: t.key, Owner: "owner", TTL: t.long()}
	for what, change := range map[string]func(*backend.Request){
		"TTL 0":             func(r *backend.Request) { r.TTL = 0 },
		"negative TTL":      func(r *backend.Request) { r.TTL = -time.Second },
		"TTL over MaxTTL":   func(r *backend.Request) { r.TTL = t.longest() + 1 },
		"empty owner":       func(r *backend.Request) { r.Owner = "" },
		"owner of 256":      func(r *backend.Request) { r.Owner = strings.Repeat("o", backend.MaxOwnerLen+1) },
		"empty key":         func(r *backend.Request) { r.Key = "" },
		"key of 1025 bytes": func(r *backend.Request) { r.Key = strings.Repeat("k", backend.MaxKeyLen+1) },
		"key of 1026 bytes in 342 characters": func(r *backend.Request) {
			r.Key = strings.Repeat("日", backend.MaxKeyLen/3+1)
		},
		"owner of 258 bytes in 86 characters": func(r *backend.Request) {
			r.Owner = strings.Repeat("日", backend.MaxOwnerLen/3+1)
		},
	} {
		for _, wait := range []bool{false, true} {
			r := good
			r.Wait = wait
			change(&r)
			if _, err := t.request(t.ctx, t.a, r); !errors.Is(err, backend.ErrInvalid) {
				t.errorf("Acquire with %s: %v, want ErrInvalid", what, err)
			}
		}
		t.staysFree(t.key, "after an Acquire with "+what)
	}
	if shared := good; !t.a.Guarantees().Shared {
		shared.Shared = true
		for _, shared.Wait = range []bool{false, true} {
			if _, err := t.request(t.ctx, t.a, shared); !errors.Is(err, backend.ErrUnsupported) {
				t.errorf("Acquire of a shared lease, which the store does not promise: %v, want ErrUnsupported", err)
			}
		}
		t.staysFree(t.key, "after an Acquire of a shared lease")
	}
	if _, err := t.a.Inspect(t.ctx, ""); !errors.Is(err, backend.ErrInvalid) {
		t.errorf("Inspect of an empty key: %v, want ErrInvalid", err)
	}
	t.free(t.b, t.key, "after bad input")

	// Bad input is refused while the key is held, too: validation comes first.
	g := t.acquire(t.b, t.key, t.long())
	r := good
	r.TTL = 0
	if _, err := t.request(t.ctx, t.a, r); !errors.Is(err, backend.ErrInvalid) {
		t.errorf("Acquire of a held key with TTL 0: %v, want ErrInvalid", err)
	}
	if r.TTL, r.Shared = t.long(), true; !t.g.Shared {
		if _, err := t.request(t.ctx, t.a, r); !errors.Is(err, backend.ErrUnsupported) {
			t.errorf("Acquire of a shared lease of a held key, which the store does not promise: %v, want ErrUnsupported", err)
		}
	}
	t.heldBy(g)
	t.refusesUnsent()
}

// refusesUnsent makes bad requests by a client whose requests do not reach the store.
func (t *trial) refusesUnsent() {
	if t.h.Linked == nil {
		return
	}
	c, link := t.linked()
	t.usable(c)
	link.Hold(ToStore)
	for _, shared := range []bool{false, true} {
		want, r := backend.ErrInvalid, backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), Shared: shared}
		if shared && !t.g.Shared {
			want, r.TTL = backend.ErrUnsupported, t.long()
		}
		what := fmt.Sprintf("Acquire with TTL %v%s, which cannot reach the store", r.TTL, inMode(shared))
		bad := t.call(func() error { _, err := t.request(t.ctx, c, r); return err })
		if err := bad.ends(t, soon, what); !errors.Is(err, want) {
			t.errorf("%s: %v, want %v before any request", what, err, want)
		}
	}
	link.Heal()
}

func extremesAreAccepted(t *trial) {
	t.servesLongestNames(false, false)
	owners := extremeOwners()
	t.inChunks(len(owners), 2, func(i int) { t.servesOwner(owners[i], false) })
	for _, owner := range owners {
		begun := time.Now()
		g, err := t.request(t.ctx, t.a, backend.Request{Key: t.newKey(), Owner: owner, TTL: t.long()})
		t.lateOnTimeout(err, begun)
		if err != nil {
			t.fatalf("owner %q: Acquire: %v", owner, err)
		}
		t.heldBy(g)
		t.renew(g, t.long())
		t.release(g)
	}
	for i, ttl := range []time.Duration{t.longest(), 31 * 24 * time.Hour, 25 * 24 * time.Hour, time.Hour} {
		g := t.acquire(t.a, t.newKey(), min(ttl, t.longest()))
		ttl = g.ttl
		if least := backend.Deadline(g.before, t.kept(ttl)); g.Deadline().Before(least) {
			t.fatalf("TTL %v: the deadline is %v early", ttl, least.Sub(g.Deadline()))
		}
		t.heldBy(g)
		t.describes(g, ttl)
		if i > 0 {
			t.release(g)
			continue
		}
		w := t.wait(t.b, g.key, t.long())
		t.arrived(g.key, 1)
		t.release(g)
		t.release(w.granted(t, t.handOff(), "after the release of a lease of MaxTTL"))
	}
	// A lease with a tiny TTL may expire before the reply arrives. It must do no harm.
	for _, ttl := range []time.Duration{1, time.Microsecond, time.Millisecond} {
		key := t.newKey()
		t.brief(t.a, key, ttl)
		t.becomesFree(t.b, key, t.g.Round(ttl)+t.handOff(), "after a tiny TTL")
	}
}
