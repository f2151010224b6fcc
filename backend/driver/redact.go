package driver

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/anylock/lock/backend"
)

// ParamPassword is a parameter of URLs that contain other URLs in their parameters. The inner URLs may have *** instead
// of a password: the first lock_password replaces the first ***, and so on. See FillPasswords.
const ParamPassword = ParamPrefix + "password"

const mask = "***"

// Redact returns raw without its user, password and query, so that it may be logged. If SplitURL refuses raw, Redact
// returns nothing of raw but the scheme.
func Redact(raw string) string {
	u, err := SplitURL(raw)
	scheme, rest, ok := strings.Cut(raw, ":")
	switch {
	case err != nil && ok && validScheme(scheme):
		return scheme + "://" + mask
	case err != nil:
		return "(malformed url)"
	case strings.HasPrefix(rest, "//"):
		scheme += "://"
	default:
		scheme += ":"
	}
	return scheme + strings.Join(u.Hosts, ",") + u.Path
}

// Mask returns raw with *** in place of each password, or "" if SplitURL refuses raw. To get a URL that works, replace
// each *** with the password in its place, escaped by Escape. The passwords of URLs in parameters follow at the end, as
// lock_password.
func Mask(raw string) string {
	if _, err := SplitURL(raw); err != nil {
		return ""
	}
	masked, _ := maskPasswords(raw)
	return masked
}

// maskPasswords implements Mask. It also returns how many passwords masked has, not counting those of URLs in its
// parameters.
func maskPasswords(raw string) (masked string, own int) {
	inner := 0
	masked = rewrite(raw, func(string) string { own++; return mask }, func(url string) string {
		url, n := maskPasswords(url)
		inner += n
		return url
	})
	_, query, _ := strings.Cut(raw, "?")
	missing := max(0, inner-strings.Count("&"+query, "&"+ParamPassword+"="))
	return masked + strings.Repeat("&"+ParamPassword+"="+mask, missing), own + missing
}

// HasPassword reports whether raw, or a URL in one of its parameters, has a password. It returns true if SplitURL
// refuses raw, unless raw is empty.
func HasPassword(raw string) bool { return Mask(raw) != raw }

// FillPasswords replaces each *** that stands for a password in urls with the next element of passwords. If passwords
// is empty, it returns urls. Errors match ErrInvalid.
func FillPasswords(urls, passwords []string) ([]string, error) {
	if len(passwords) == 0 {
		return urls, nil
	}
	filled := make([]string, len(urls))
	used := 0
	for i, raw := range urls {
		if _, err := SplitURL(raw); err != nil {
			return nil, err
		}
		filled[i] = rewrite(raw, func(secret string) string {
			if secret == mask {
				if used++; used <= len(passwords) {
					return Escape(passwords[used-1])
				}
			}
			return secret
		}, func(url string) string { return url })
	}
	if used != len(passwords) {
		return nil, fmt.Errorf("%w: url: %d %s for %d urls with *** as password", backend.ErrInvalid, len(passwords),
			ParamPassword, used)
	}
	return filled, nil
}

// CleanError removes the passwords of raw, the URL that err came from, from err's message, because client libraries
// often quote a URL that they could not parse, or its parts. It removes passwords of three bytes or more, as written in
// raw, decoded, and escaped in other ways. If SplitURL refuses raw, the message is SplitURL's. If the message needs no
// change, CleanError returns err. Otherwise the result matches whatever err matches, and does not unwrap.
func CleanError(raw string, err error) error {
	if err == nil || raw == "" {
		return err
	}
	if _, bad := SplitURL(raw); bad != nil {
		return &cleanError{bad.Error(), err}
	}
	clean := err.Error()
	for _, text := range []string{raw, unquoted(strconv.Quote(raw))} {
		clean = strings.ReplaceAll(clean, text, Redact(raw))
	}
	for _, secret := range secrets(raw) {
		clean = strings.ReplaceAll(clean, secret, mask)
	}
	if clean == err.Error() {
		return err
	}
	return &cleanError{clean, err}
}

// A cleanError does not unwrap, because the message of the error inside must not be shown.
type cleanError struct {
	msg string
	err error
}

func (e *cleanError) Error() string        { return e.msg }
func (e *cleanError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *cleanError) As(target any) bool   { return errors.As(e.err, target) }

// secrets returns the passwords of raw, the longest first: as written, decoded, quoted by Go, and escaped anew, because
// libraries build URLs of their own.
func secrets(raw string) []string {
	const least = 3 // replacing a shorter password would garble the message
	var list []string
	var collect func(raw string) string
	collect = func(raw string) string {
		return rewrite(raw, func(secret string) string {
			inPath, _ := url.PathUnescape(secret) // "" after an error
			inQuery, _ := url.QueryUnescape(secret)
			for _, s := range []string{secret, inPath, inQuery} {
				list = append(list, s, unquoted(strconv.Quote(s)), Escape(s), url.QueryEscape(s),
					url.UserPassword("", s).String()[1:])
			}
			return secret
		}, collect)
	}
	collect(raw)
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.DeleteFunc(slices.Compact(list), func(s string) bool { return len(s) < least || s == mask })
}

// rewrite returns raw, which SplitURL must accept, with replaced passwords and inner URLs. secret returns the
// replacement for each password, as written; nested returns the replacement for each URL in a parameter.
func rewrite(raw string, secret, nested func(string) string) string {
	base, query, hasQuery := strings.Cut(raw, "?")
	if userinfo, rest, ok := strings.Cut(base, "@"); ok {
		scheme, userinfo, hasAuthority := strings.Cut(userinfo, "://")
		user, password, ok := strings.Cut(userinfo, ":")
		if ok && password != "" && hasAuthority && !strings.Contains(userinfo, "/") {
			base = scheme + "://" + user + ":" + secret(password) + "@" + rest
		}
	}
	if !hasQuery {
		return base
	}
	params := strings.Split(query, "&")
	for i, param := range params {
		name, value, _ := strings.Cut(param, "=")
		if value != "" && secretName(name) {
			params[i] = name + "=" + secret(value)
		} else if inner, ok := innerURL(value); ok {
			if rewritten := nested(inner); rewritten != inner {
				params[i] = name + "=" + Escape(rewritten)
			}
		}
	}
	return base + "?" + strings.Join(params, "&")
}

// innerURL returns the URL in the value of a parameter, and whether there is one.
func innerURL(value string) (string, bool) {
	inner, err := url.QueryUnescape(value)
	if err != nil || !strings.Contains(inner, ":") || inner == value && !strings.Contains(value, "://") {
		return "", false
	}
	_, err = SplitURL(inner)
	return inner, err == nil
}

// secretParam reports whether a parameter may contain a secret: by its name, or because its value contains an @, as a
// URL with a password does.
func secretParam(name, value string) bool {
	plain, err := url.QueryUnescape(value)
	return secretName(name) || err == nil && strings.Contains(plain, "@")
}

// secretName reports whether a parameter with this name, as written, has a secret value.
func secretName(name string) bool {
	plain, _ := url.QueryUnescape(name) // "" after an error
	name = strings.ToLower(cmp.Or(plain, name))
	return name != paramTokenBase.Name &&
		(strings.Contains(name, "pass") || strings.Contains(name, "secret") || strings.Contains(name, "token"))
}

func unquoted(s string) string { return s[1 : len(s)-1] }
