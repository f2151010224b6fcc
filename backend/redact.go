package backend

import (
	"errors"
	"net/url"
	"strings"
)

// Redact returns raw without its user, password and query: what may be logged. It is safe on malformed URLs too.
func Redact(raw string) string {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok || !validScheme(scheme) {
		return "(malformed url)"
	}
	slashes := ""
	if strings.HasPrefix(rest, "//") {
		slashes, rest = "//", rest[2:]
	}
	// A password may hold an unescaped / or ?: all up to the last @ goes.
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	return scheme + ":" + slashes + rest
}

// CleanError keeps the secrets of raw, the URL that err came from, out of err's message. Client libraries like to quote
// the URL that they could not parse. The result matches what err matches.
func CleanError(raw string, err error) error {
	if err == nil {
		return nil
	}
	// net/url quotes the whole URL, and its own message says what is wrong.
	if u := (*url.Error)(nil); errors.As(err, &u) && u.Op == "parse" {
		err = u.Err
	}
	msg := err.Error()
	clean := strings.ReplaceAll(msg, raw, Redact(raw))
	for _, secret := range secrets(raw) {
		clean = strings.ReplaceAll(clean, secret, "***")
	}
	if clean == msg {
		return err
	}
	return &cleanError{clean, err}
}

type cleanError struct {
	msg string
	err error
}

func (e *cleanError) Error() string { return e.msg }
func (e *cleanError) Unwrap() error { return e.err }

// secrets lists what must not be shown of raw: the password, and the values of its query, each as written and decoded.
func secrets(raw string) []string {
	var found []string
	add := func(s string) {
		const least = 3 // shorter ones would garble the message and tell as little
		if len(s) < least {
			return
		}
		found = append(found, s)
		if plain, err := url.PathUnescape(s); err == nil && plain != s {
			found = append(found, plain)
		}
	}
	_, rest, _ := strings.Cut(raw, ":")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		_, password, _ := strings.Cut(strings.TrimPrefix(rest[:i], "//"), ":")
		add(password)
	}
	_, query, _ := strings.Cut(rest, "?")
	for _, pair := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name = strings.ToLower(name); strings.Contains(name, "pass") || strings.Contains(name, "secret") ||
			strings.Contains(name, "token") {
			add(value)
		}
	}
	return found
}
