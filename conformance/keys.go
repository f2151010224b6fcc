package conformance

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var keyChecks = []Check{
	{
		Name: "KeysAreBytes",
		Rule: "rule 8: keys are any bytes: each of the 256 values makes a key of its own",
		run:  keysAreBytes,
	},
	{
		Name: "KeysAreInjective",
		Rule: "rule 8: keys that look alike (case, separators, blanks, braces, escapes, normal forms) share nothing",
		run:  keysAreInjective,
	},
	{
		Name: "KeysAreLong",
		Rule: "rule 8: keys up to 1024 bytes count in full, a longer one is ErrInvalid",
		run:  keysAreLong,
	},
}

// distinct fails unless client a can hold all keys at once and renew each lease, and client b sees each key's own
// owner.
func (t *trial) distinct(keys []string) {
	// On a busy machine, the requests for many keys may take longer than the TTL.
	inTime := func(g *grant) {
		if !g.live(time.Now()) {
			t.lateFor(ttlRule, false, "key %s: its lease was over before it was looked at", show(g.key))
		}
	}
	ways := t.renewals()
	for keys := range slices.Chunk(keys, t.h.Many) {
		grants := make([]*grant, len(keys))
		t.inTurns(len(keys), func(i int) {
			g, err := t.attempt(t.a, keys[i], t.long())
			if err != nil {
				t.notGranted("key "+show(keys[i])+": Acquire", keys[i], err)
			}
			grants[i] = g
		})
		t.inTurns(len(keys), func(i int) {
			g, begun := grants[i], time.Now()
			h, err := t.b.Inspect(t.ctx, g.key)
			t.lateOnTimeout(err, begun)
			inTime(g)
			if err != nil || h.Owner != g.owner {
				t.breaks(8, "key %s: Inspect says that %q holds it (error %v), want %q%s", show(g.key), h.Owner, err, g.owner,
					t.sharedWith(g.key))
			}
			_, err = t.attempt(t.b, g.key, t.long())
			inTime(g)
			if !errors.Is(err, backend.ErrHeld) {
				t.fatalf("key %s: Acquire of the held key: %v, want ErrHeld", show(g.key), err)
			}
		})
		t.inTurns(len(keys), func(i int) {
			g := grants[i]
			for _, way := range ways {
				deadline, begun := g.Deadline(), time.Now()
				err := way.renew(t.ctx, g, t.long())
				t.lateOnTimeout(err, begun)
				t.lostInTime(err, deadline, begun, t.long())
				if err != nil {
					t.fatalf("key %s: %s: %v", show(g.key), way.what, err)
				}
			}
			begun := time.Now()
			inTime(g)
			err := g.Release(t.ctx)
			t.lateOnTimeout(err, begun)
			if err != nil {
				t.fatalf("key %s: Release: %v", show(g.key), err)
			}
		})
	}
}

// show quotes key for messages. It shortens a long key in the middle.
func show(key string) string {
	const most = 80
	if len(key) > most {
		key = key[:most/2] + "…" + key[len(key)-most/2:]
	}
	return strconv.Quote(key)
}

func keysAreBytes(t *trial) {
	var keys []string
	for i := range 256 {
		keys = append(keys, t.key+"-"+string([]byte{byte(i)}))
	}
	t.distinct(keys)
	// An odd byte in front, in the middle and at the end, for stores that trim or split keys.
	var odd []string
	for _, c := range []byte{0, '\t', '\n', '\r', ' ', '"', '%', '/', ':', '\\', '{', '}', 0x7f, 0x80, 0xff} {
		odd = append(odd, string([]byte{c})+t.key, t.key+string([]byte{c})+"x", t.key+string([]byte{c, c}))
	}
	t.distinct(odd)
}

func keysAreInjective(t *trial) {
	k := t.key
	t.distinct([]string{
		// prefixes and separators
		k, k + "/", k + "//", k + "/b", k + "//b", k + "/b/", k + "/./b", k + "/../b", k + "/b/c", k + "/b%2fc", k + "/b%2Fc",
		"/" + k, "./" + k, "../" + k, k + "/..", k + "/.", k + ":b", k + ":b:c", k + ".b", k + ",b", k + ";b", k + "|b", k +
			`\b`, k + `\`,
		// case
		k + "A", k + "a", k + "É", k + "é", k + "ß", k + "ss", k + "SS", k + "İ", k + "ı", k + "i", k + "I", k + "ſ", k + "s",
		k + "K", k + "k",
		// normal forms: composed and not, ligature, full width
		k + "e\u0301", k + "\ufb01", k + "fi", k + "\uff21", k + "\u212b", k + "\u00c5", k + "A\u030a", k + "\u200b", k +
			"\ufeff",
		// blanks and ends of strings
		k + " ", k + "  ", " " + k, k + "\t", k + "\n", k + "\r\n", k + "\x00", k + "\x00\x00", k + "\x00b", k + "\x00c", k +
			"\u00a0",
		// hash tags of Redis Cluster
		"{" + k + "}", "{" + k + "}b", "a{" + k + "}", "{}" + k, "{" + k, k + "}", "{{" + k + "}}", "{" + k + "}{b}",
		// patterns, escapes, encodings of the ones above
		k + "*", k + "?", k + "[a]", k + "%", k + "%%", k + "%61", k + "%41", k + "%00", k + "%20", k + "+", k + "_", k + "-",
		k + "=", k + "%=",
		k + `\x00`, k + `\n`, k + "&#47;", k + "'", k + `"`, k + "''", k + "$", k + "$1", k + "#", k + "~", k + "!", k + "^",
		k + "`",
		// characters of four bytes
		k + "\U0001f511", k + "\U0001f512",
		// not UTF-8
		k + "\xff", k + "\xc3", k + "\xc3\x28", k + "\xed\xa0\x80", k + "\ufffd", k + "\xfe",
		// names that stores use themselves
		k + ":token", k + ":queue", k + ":fence", k + "/token", k + ".lock", k + ".tmp", k + "-0000000001", k + ":q", k +
			":waiters",
	})
}

// pad returns the trial's key, extended to n bytes, with the given end.
func (t *trial) pad(n int, end string) string {
	return t.key + strings.Repeat("x", n-len(t.key)-len(end)) + end
}

func keysAreLong(t *trial) {
	var keys []string
	for _, n := range []int{63, 64, 65, 127, 128, 199, 200, 249, 250, 251, 254, 255, 256, 257, 511, 512, 513, 1000} {
		keys = append(keys, t.pad(n, ""), t.pad(n, "y"))
	}
	for _, end := range []string{"a", "b", "A", "\x00", "\xff", "/", " "} {
		keys = append(keys, t.pad(backend.MaxKeyLen-1, end), t.pad(backend.MaxKeyLen, end))
	}
	for _, middle := range []string{"a", "b"} {
		keys = append(keys, t.key+strings.Repeat("x", 400)+middle+strings.Repeat("x", 400))
	}
	// Keys whose bytes have to be escaped become the longest.
	escaped := t.key + strings.Repeat("\x00", backend.MaxKeyLen-1-len(t.key))
	keys = append(keys, escaped+"\x00", escaped+"\x01", escaped)
	t.distinct(keys)
	long := t.pad(backend.MaxKeyLen+1, "")
	for _, wait := range []bool{false, true} {
		if _, err := t.requestKey(t.ctx, t.a, long, t.long(), wait); !errors.Is(err, backend.ErrInvalid) {
			t.fatalf("Acquire of a key of %d bytes: %v, want ErrInvalid", len(long), err)
		}
	}
	if _, err := t.a.Inspect(t.ctx, long); !errors.Is(err, backend.ErrInvalid) {
		t.fatalf("Inspect of a key of %d bytes: %v, want ErrInvalid", len(long), err)
	}
	t.free(t.b, long[:backend.MaxKeyLen], "after a longer key was refused")
}
