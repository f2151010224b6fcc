package driver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://user:secret@host:6379/0?password=secret": "redis://host:6379/0",
		"redis://host":                "redis://host",
		"redis://u:sec/ret@host/1":    "redis://***",
		"redis://u:sec?ret@host/1":    "redis://***",
		"redis://u:sec#ret@host/1":    "redis://***",
		"redis://u:sec@ret@host/1":    "redis://***",
		"redis://u:secret@h1:1,h2:2":  "redis://h1:1,h2:2",
		"redis://u:secret@host#frag":  "redis://***",
		"redis://u:secret@host?a=b@c": "redis://***",
		"redis://:secret":             "redis://***",
		"redis://u:sec/ret":           "redis://***",
		"redis://h1:1,h2:secret/0":    "redis://***",
		"redis://[::1]:6379,[::2]/0":  "redis://[::1]:6379,[::2]/0",
		"memory:":                     "memory:",
		"file:///var/run":             "file:///var/run",
		"u:secret@host":               "u://***",
		"secret":                      "(malformed url)",
		"":                            "(malformed url)",
		" redis://u:secret@host":      "(malformed url)",
		"redis+redlock:///?lock_node=redis%3A%2F%2Fu%3Asecret%40h": "redis+redlock:///",
		"postgres://host/db?user=bob@srv&password=secret":          "postgres://***",
		"postgres://host/db?user=bob%40srv&password=secret":        "postgres://host/db",
		"postgres://host/db?password=p@ss":                         "postgres://***",
		"postgres://host/db#a@b?password=secret":                   "postgres://***",
	} {
		if got := Redact(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// HasPassword also finds passwords that are too short for CleanError, and those of URLs in parameters.
func TestHasPassword(t *testing.T) {
	for raw, want := range map[string]bool{
		"redis://u:secret@h":                       true,
		"redis://u:x@h":                            true,
		"redis://:ab@h":                            true,
		"redis://h?sentinel_password=x":            true,
		"pair:?lock_first=redis%3A%2F%2Fu%3Ax%40h": true,
		"redis://u:%2A%2A%2A@h":                    true,
		"redis://u:se/cret@h":                      true, // refused
		"":                                         false,
		"redis://u:***@h":                          false,
		"redis://u:@h":                             false,
		"redis://u@h/0?db=1&password=&lock_token_base=7":               false,
		"pair:?lock_first=redis%3A%2F%2Fu%3A***%40h&lock_password=***": false,
		"file:///home/u:x": false,
	} {
		if got := HasPassword(raw); got != want {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	}
}

func TestCleanError(t *testing.T) {
	if err := CleanError("redis://u:secret@h", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	if err := CleanError("", errReset); err != errReset {
		t.Errorf("without a url: %v", err)
	}
	if err := CleanError("redis://u:secret@h", errReset); err != errReset {
		t.Errorf("an error without secrets became %v", err)
	}
	const raw = "redis://user:s%c3%a9cret%22x@h:1/0?sentinel_password=other%20one&lock_node=redis%3A%2F%2Fa%3Athird%40b&db=1"
	for _, text := range []string{
		raw, "sécret\"x", `"sécret\"x"`, "s%C3%A9cret%22x", "s%c3%a9cret%22x", "other one", "other%20one", "other+one",
		"third",
	} {
		inner := fmt.Errorf("%w: cannot read %s, really", backend.ErrInvalid, text)
		err := CleanError(raw, inner)
		for _, secret := range []string{"cret", "other", "third"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s is shown: %v", secret, err)
			}
		}
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "really") {
			t.Errorf("%v has lost what it is", err)
		}
		if errors.Unwrap(err) != nil {
			t.Errorf("%v unwraps to what shows the secret", err)
		}
	}
}

func TestCleanErrorKeepsTypes(t *testing.T) {
	inner := &backend.HeldError{Holder: backend.Holder{Owner: "secret"}}
	err := CleanError("redis://u:secret@h", fmt.Errorf("open: %w", inner))
	held := (*backend.HeldError)(nil)
	if !errors.As(err, &held) || held != inner || !errors.Is(err, backend.ErrHeld) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// The token base is not a secret, although its name contains "token". Other parameters with such a name count as
// secrets.
func TestCleanErrorShowsTokenBase(t *testing.T) {
	const raw = "redis://h?lock_token_base=4711&lock_password=swordfish&token=sesame"
	err := CleanError(raw, errors.New("4711 swordfish sesame"))
	if want := "4711 *** ***"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// Errors of net/url may quote a part of a password. CleanError removes it.
func TestCleanErrorOfNetURL(t *testing.T) {
	for _, raw := range []string{"redis://u:se/cret@h", "redis://u:s%zzecret@h", "redis://u:secret@[h",
		"redis://u:secret\x01@h", "redis://u:secret@h:x"} {
		_, parse := url.Parse(raw)
		if parse == nil {
			t.Fatalf("net/url takes %q", raw)
		}
		err := CleanError(raw, fmt.Errorf("%w: redis url: %w", backend.ErrInvalid, parse))
		if msg := err.Error(); strings.Contains(msg, "s%zz") || strings.Contains(msg, "s/e") ||
			strings.Contains(msg, "cret") || !strings.HasPrefix(msg, "invalid: ") {
			t.Errorf("%q: %v", raw, err)
		}
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%v has lost what it is", err)
		}
		if again := CleanError(raw, err); again.Error() != err.Error() {
			t.Errorf("cleaned twice: %v, then %v", err, again)
		}
	}
}

// Whatever bytes a password contains, neither its beginning nor its end is shown by Redact, an error or CleanError.
func FuzzNoPasswordIsShown(f *testing.F) {
	for _, seed := range []string{"", "x", "/", "?", "#", "@", ":", "%zz", "%41", "\"", "a b", "\x00", "é", "\xff",
		"a@b:c/d?e#f", "&lock_a=", "://"} {
		f.Add("user", seed, "host:1/0")
		f.Add("user", seed, "host:1/0?a=b@c")
		f.Add("user", seed, "host:1/0#a@b")
	}
	f.Fuzz(func(t *testing.T, user, middle, host string) {
		const first, last = "Zq7", "7qZ"
		password := first + middle + last
		if strings.ContainsAny(user, ":@/?#") || strings.Contains(user+host, first) || strings.Contains(user+host, last) ||
			strings.Contains(middle, first) || strings.Contains(middle, last) {
			return
		}
		raw := "redis://" + user + ":" + password + "@" + host
		check := func(what, text string) {
			t.Helper()
			if strings.Contains(text, first) || strings.Contains(text, last) {
				t.Errorf("%s of %q shows the password: %s", what, raw, text)
			}
		}
		check("redact", Redact(raw))
		for _, user := range []string{user, user + "@server"} {
			check("redact in the query", Redact("redis://"+host+"?user="+user+"&password="+password))
		}
		_, err := SplitURL(raw)
		if err != nil {
			check("split", err.Error())
		}
		for _, d := range []Driver{zoo, {Name: "bare", URLs: []URLForm{{Scheme: "redis"}}}} {
			if _, err := d.Parse(raw); err != nil {
				check("parse", err.Error())
			}
		}
		if _, err := url.Parse(raw); err != nil {
			check("net/url", CleanError(raw, err).Error())
		}
		for _, text := range []string{
			raw, password, strconv.Quote(raw), strconv.Quote(password), Escape(password), url.QueryEscape(password),
			url.UserPassword(user, password).String(),
		} {
			check("error", CleanError(raw, errors.New(text)).Error())
		}
	})
}

// The memory that CleanError allocates grows roughly in proportion to the length of the URL, whatever the URL contains.
func TestCleanErrorIsLinear(t *testing.T) {
	for name, piece := range map[string]string{"@": "@", "passwords": "abc@", "parameters": "&password%d=secret%d",
		"urls": "&lock_node%d=a%%3A%%2F%%2Fu%%3Asecret%d%%40h"} {
		cost := func(n int) uint64 {
			raw := "redis://u:"
			if strings.HasPrefix(piece, "&") {
				raw = "redis://h?a"
			}
			var b strings.Builder
			b.WriteString(raw)
			for i := range n {
				if strings.Contains(piece, "%d") {
					fmt.Fprintf(&b, piece, i, i)
				} else {
					b.WriteString(piece)
				}
			}
			b.WriteString("@h")
			raw = b.String()
			err := fmt.Errorf("cannot read %s", raw)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			clean := CleanError(raw, err).Error()
			runtime.ReadMemStats(&after)
			if strings.Contains(clean, "secret") || strings.Contains(clean, "abc") {
				t.Errorf("%s: shown: %s", name, clean)
			}
			return after.TotalAlloc - before.TotalAlloc
		}
		few, many := cost(500), cost(4000)
		t.Logf("%s: %d bytes for 500, %d for 4000", name, few, many)
		const least = 4096 // pools of fmt and regexp may be empty or full
		if many > 16*max(few, least) {
			t.Errorf("%s: 8 times the length takes %d times the memory", name, many/few)
		}
	}
}
