package pair

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/anylock/lock/backend"
)

const scheme = "pair"

func init() {
	backend.Register(backend.Driver{
		Name:     "pair",
		Schemes:  []string{scheme},
		Examples: []string{URL("redis://old", "etcd://new?lock_token_base=1000000", 1000000)},
		Params: map[string]string{
			"lock_first":    "URL of the store that is taken first, escaped",
			"lock_second":   "URL of the store that is taken second, escaped",
			"lock_password": "replaces the first *** that is a password in the two URLs, the next one the second, and so on",
			"lock_cut":      "number of the first store from which on tokens come from the second store (default 0)",
		},
		Guarantees: backend.Guarantees{EarlyLoss: "whatever either store may do", EnforcedBy: "both stores"},
		RoundTrips: backend.RoundTrips{Acquire: "both", Renew: "both", Release: "both"},
		Open:       open,
	})
}

// URL is the URL of the store that is made of the two whose URLs are given. It holds their passwords.
func URL(first, second string, cut uint64) string {
	raw := scheme + ":?lock_first=" + url.QueryEscape(first) + "&lock_second=" + url.QueryEscape(second)
	if cut > 0 {
		raw += "&lock_cut=" + strconv.FormatUint(cut, 10)
	}
	return raw
}

// parseURL returns what URL was given.
func parseURL(rawURL string) (first, second string, cut uint64, err error) {
	fail := func(what string) (string, string, uint64, error) {
		return "", "", 0, fmt.Errorf("%w: pair url: %s; write pair:?lock_first=URL&lock_second=URL with escaped URLs", backend.ErrInvalid, what)
	}
	rest, passwords, err := takePasswords(rawURL)
	if err != nil {
		return "", "", 0, err
	}
	rest, params, err := backend.TakeParams(rest, "lock_first", "lock_second", "lock_cut")
	if err != nil {
		return "", "", 0, err
	}
	u, err := backend.SplitURL(rest)
	switch {
	case err != nil:
		return "", "", 0, err
	case u.Scheme != scheme:
		return fail("another scheme")
	case u.HasUser || len(u.Hosts) > 0 || u.Path != "":
		return fail("it has neither host nor path")
	case u.Query != "":
		return fail("a parameter that is not the pair's, as of a URL that is not escaped")
	}
	for _, name := range []string{"lock_first", "lock_second"} {
		inner, err := backend.SplitURL(params[name])
		if err != nil {
			return "", "", 0, fmt.Errorf("%s is missing or not a url: %w", name, err)
		}
		if inner.Scheme == scheme {
			return fail(name + " is a pair itself")
		}
	}
	if text, ok := params["lock_cut"]; ok {
		if cut, err = strconv.ParseUint(text, 10, 64); err != nil || cut >= backend.TokenLimit {
			return fail("lock_cut is not a number below 2^55")
		}
	}
	urls, err := backend.FillPasswords([]string{params["lock_first"], params["lock_second"]}, passwords)
	if err != nil {
		return "", "", 0, err
	}
	return urls[0], urls[1], cut, nil
}

// takePasswords removes the parameters lock_password and returns their values.
func takePasswords(raw string) (rest string, passwords []string, err error) {
	if _, err := backend.SplitURL(raw); err != nil {
		return "", nil, err
	}
	base, query, _ := strings.Cut(raw, "?")
	var kept []string
	for param := range strings.SplitSeq(query, "&") {
		escaped, ok := strings.CutPrefix(param, backend.ParamPassword+"=")
		if !ok {
			kept = append(kept, param)
			continue
		}
		password, err := url.QueryUnescape(escaped)
		if err != nil {
			return "", nil, fmt.Errorf("%w: pair url: bad %%XX escape in parameter %q", backend.ErrInvalid, backend.ParamPassword)
		}
		passwords = append(passwords, password)
	}
	return base + "?" + strings.Join(kept, "&"), passwords, nil
}

func open(ctx context.Context, rawURL string) (backend.Backend, error) {
	firstURL, secondURL, cut, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	first, err := OpenStore(ctx, firstURL)
	if err != nil {
		return nil, fmt.Errorf("first store: %w", err)
	}
	second, err := OpenStore(ctx, secondURL)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("second store: %w", err), first.Backend.Close())
	}
	return New(first, second, cut), nil
}

// OpenStore opens one of the two, and takes the parameters from its URL that package lock takes where it is alone. Its errors do not show passwords.
func OpenStore(ctx context.Context, rawURL string) (s Store, err error) {
	rest, prefix, _, err := backend.TakeParam(rawURL, "lock_prefix")
	if err != nil {
		return s, err
	}
	s.Prefix = prefix
	if rest, s.TokenBase, err = backend.TakeTokenBase(rest); err != nil {
		return s, err
	}
	s.Backend, s.Name, err = backend.DefaultMux.Open(ctx, rest)
	return s, err
}
