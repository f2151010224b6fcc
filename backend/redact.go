package backend

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Redact returns raw without its user, password and query: what may be logged. It is safe on malformed URLs too. It returns only the
// scheme of a URL with an unescaped @ behind a ? or #, or with a port that is no number: it may be a password without its @.
func Redact(raw string) string {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok || !validScheme(scheme) {
		return "(malformed url)"
	}
	slashes := ""
	if strings.HasPrefix(rest, "//") {
		slashes, rest = "//", rest[2:]
	}
	at := strings.LastIndexByte(rest, '@')
	if i := strings.IndexAny(rest, "?#"); i >= 0 && i < at {
		return scheme + ":" + slashes + "***" // either side of the @ may be of a password
	}
	rest = rest[at+1:] // all up to the last @ goes: a password may hold an unescaped /
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	authority, _, _ := strings.Cut(rest, "/")
	if slashes != "" && slices.ContainsFunc(strings.Split(authority, ","), func(host string) bool { return !validPort(host) }) {
		rest = "***"
	}
	return scheme + ":" + slashes + rest
}

// CleanError keeps the secrets of raw, the URL that err came from, out of err's message: its password and the values of
// query parameters that hold one, if they are of three bytes or more. Client libraries like to quote the URL that they
// could not parse, or its parts. The result matches what err matches, and does not unwrap.
func CleanError(raw string, err error) error {
	if err == nil || raw == "" {
		return err
	}
	clean := err.Error()
	// net/url quotes the whole URL, and the part of it that is wrong, cut where it likes.
	if u := (*url.Error)(nil); errors.As(err, &u) && u.Op == "parse" {
		clean = strings.ReplaceAll(clean, u.Error(), quoted.ReplaceAllString(u.Err.Error(), "***"))
	}
	clean = strings.ReplaceAll(clean, raw, Redact(raw))
	list, all := secrets(raw)
	for _, secret := range list {
		clean = strings.ReplaceAll(clean, secret, "***")
	}
	if !all {
		clean = "not shown, as the url may hold too many passwords"
	}
	if clean == err.Error() {
		return err
	}
	return &cleanError{clean, err}
}

var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// A cleanError does not unwrap: the message of what it holds is not to be seen.
type cleanError struct {
	msg string
	err error
}

func (e *cleanError) Error() string        { return e.msg }
func (e *cleanError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *cleanError) As(target any) bool   { return errors.As(e.err, target) }

// secrets lists what must not be shown of raw, the longest first: passwords, and the values of its query that are secret
// by their names, in each form in which an error may show them. It is false, and the list incomplete, if there are so many that
// looking for all of them would take time without bound.
func secrets(raw string) ([]string, bool) {
	found := make(map[string]bool)
	addSecrets(found, raw)
	if len(found) > mostSecrets {
		return nil, false
	}
	list := slices.Collect(maps.Keys(found))
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return list, true
}

// mostSecrets is how many forms of secrets are looked for: of some forty passwords.
const mostSecrets = 256

// addSecrets adds what it finds in raw, until it is too much.
func addSecrets(found map[string]bool, raw string) {
	_, rest, _ := strings.Cut(raw, ":")
	rest = strings.TrimPrefix(rest, "//")
	for i := range len(rest) { // which @ ends the password is a matter of who reads it
		if len(found) > mostSecrets {
			return
		}
		if rest[i] == '@' {
			_, password, _ := strings.Cut(rest[:i], ":")
			addForms(found, password)
		}
	}
	_, query, _ := strings.Cut(rest, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if len(found) > mostSecrets {
			return
		}
		name, value, _ := strings.Cut(pair, "=")
		if name = strings.ToLower(name); name != paramTokenBase && (strings.Contains(name, "pass") ||
			strings.Contains(name, "secret") || strings.Contains(name, "token")) {
			addForms(found, value)
		}
		if plain, err := url.QueryUnescape(value); err == nil && strings.Contains(plain, "://") {
			addSecrets(found, plain) // a URL in a parameter
		}
	}
}

// addForms adds a secret as it is written, decoded, and encoded and quoted anew.
func addForms(found map[string]bool, secret string) {
	const least = 3 // shorter ones would garble the message and tell as little
	plains := []string{secret}
	if p, err := url.PathUnescape(secret); err == nil {
		plains = append(plains, p)
	}
	if p, err := url.QueryUnescape(secret); err == nil {
		plains = append(plains, p)
	}
	for _, p := range plains {
		user := strings.TrimPrefix(url.UserPassword("", p).String(), ":")
		for _, form := range []string{p, url.PathEscape(p), url.QueryEscape(p), user} {
			for _, f := range []string{form, unquoted(strconv.Quote(form)), unquoted(strconv.QuoteToASCII(form))} {
				if len(f) >= least {
					found[f] = true
				}
			}
		}
	}
}

func unquoted(s string) string { return s[1 : len(s)-1] }
