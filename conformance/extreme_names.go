package conformance

import (
	"strings"

	"github.com/anylock/lock/backend"
)

// extremeOwners returns the shortest and longest owners, and owners with characters that a store might take for its own
// separators, escape or refuse.
func extremeOwners() []string {
	const marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	return []string{
		"o", strings.Repeat("o", backend.MaxOwnerLen), "4f0c@web-3:4711", "name with blanks, commas; and \"quotes\" {}/\\%",
		marks, "4f0c@" + marks + "x", longestOwner("4f0c", marks), longestOwner("", "'"), longestOwner("", `\`),
		"4f0c@日本/é:🔒", longestOwner("", "日"), longestOwner("", "🔒"),
	}
}

// longestOwner returns begin, extended to MaxOwnerLen bytes by text, again and again, and by dots in the end.
func longestOwner(begin, text string) string {
	for len(begin)+len(text) <= backend.MaxOwnerLen {
		begin += text
	}
	return begin + strings.Repeat(".", backend.MaxOwnerLen-len(begin))
}

// servesLongestNames acquires the longest key for the longest owner, waits for it, and renews, resumes and breaks the
// lease. Each byte of the names may need an escape. The first owner is shared or not, and so is the second.
func (t *trial) servesLongestNames(first, second bool) {
	key := t.newKey()
	key += strings.Repeat("\xff", backend.MaxKeyLen-len(key))
	request := func(shared, wait bool) backend.Request {
		return backend.Request{Key: key, Owner: longestOwner(backend.NewOwner(), "'"), TTL: t.long(), Wait: wait,
			Shared: shared}
	}
	g, err := t.request(t.ctx, t.a, request(first, false))
	if err != nil {
		t.notGranted("Acquire of the longest key by the longest owner", key, err)
	}
	if h := t.inspect(key); h.Owner != g.owner {
		t.breaksText(inspectRule, "Inspect says that %s holds the longest key, want %s", show(h.Owner), show(g.owner))
	}
	w := t.begin(t.ctx, t.b, request(second, true))
	t.arrived(key, 1)
	for _, way := range t.renewals() {
		t.renewBy(g, t.long(), func() error { return way.renew(t.ctx, g, t.long()) })
	}
	t.release(g)
	next := w.granted(t, t.handOff(), "after the release of the longest key by the longest owner")
	if h := t.inspect(key); h.Owner != next.owner {
		t.breaksText(inspectRule, "Inspect says that %s holds the longest key, want %s", show(h.Owner), show(next.owner))
	}
	if _, ok := t.a.(backend.Resumer); ok {
		next = t.resume(t.a, next, t.long())
	}
	t.breakOrRelease(t.a, next)
	t.becomesFree(t.b, key, t.handOff(), "after the end of the longest owner's lease of the longest key")
}
