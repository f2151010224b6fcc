package pair

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

const (
	scheme      = "pair"
	paramFirst  = driver.ParamPrefix + "first"
	paramSecond = driver.ParamPrefix + "second"
	paramCut    = driver.ParamPrefix + "cut"
)

func init() {
	driver.Register(driver.Driver{
		Name: "pair",
		URLs: []driver.URLForm{{Scheme: scheme}},
		Params: []driver.Param{
			{Name: paramFirst, Help: "URL of the store that is acquired first, escaped"},
			{Name: paramSecond, Help: "URL of the store that is acquired second, escaped"},
			{Name: driver.ParamPassword, Many: true,
				Help: "replaces the first *** that is a password in the two URLs, the next one the second, and so on"},
			{Name: paramCut, Type: driver.Number, Max: backend.TokenLimit - 1,
				Help: "number of the first store from which on tokens come from the second store; default 0"},
		},
		Examples:   []string{URL("redis://old", "etcd://new?lock_token_base=1000000", 1000000)},
		Guarantees: backend.Guarantees{EarlyLoss: "whatever either store may do", EnforcedBy: "both stores"},
		RoundTrips: driver.RoundTrips{Acquire: "both", Renew: "both", Release: "both"},
		Open:       open,
	})
}

// URL returns the URL of the pair of the two stores whose URLs are given. It contains their passwords.
func URL(first, second string, cut uint64) string {
	raw := scheme + ":?" + paramFirst + "=" + url.QueryEscape(first) + "&" + paramSecond + "=" + url.QueryEscape(second)
	if cut > 0 {
		raw += "&" + paramCut + "=" + strconv.FormatUint(cut, 10)
	}
	return raw
}

// storesOf returns the URLs of the two stores, with their passwords.
func storesOf(u driver.URL) (urls []string, err error) {
	for _, name := range []string{paramFirst, paramSecond} {
		inner, err := driver.SplitURL(u.Text(name))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s is missing or not a url: %w", name, err)
		case inner.Scheme == scheme:
			return nil, fmt.Errorf("%w: pair url: %s is a pair itself", backend.ErrInvalid, name)
		}
		urls = append(urls, inner.Raw)
	}
	return driver.FillPasswords(urls, u.Texts(driver.ParamPassword))
}

func open(ctx context.Context, u driver.URL) (backend.Backend, error) {
	urls, err := storesOf(u)
	if err != nil {
		return nil, err
	}
	first, err := OpenStore(ctx, urls[0])
	if err != nil {
		return nil, fmt.Errorf("first store: %w", err)
	}
	second, err := OpenStore(ctx, urls[1])
	if err != nil {
		return nil, errors.Join(fmt.Errorf("second store: %w", err), first.Backend.Close())
	}
	return New(first, second, uint64(u.Number(paramCut))), nil
}

// OpenStore opens one of the two stores. It applies the parameters of the URL that package lock applies to a store that
// is used alone: lock_prefix and lock_token_base. Its errors do not show passwords.
func OpenStore(ctx context.Context, rawURL string) (s Store, err error) {
	rawURL, s.Prefix, s.TokenBase, err = driver.TakeLockParams(rawURL)
	if err != nil {
		return s, err
	}
	s.Backend, s.Name, err = driver.Open(ctx, rawURL)
	return s, err
}
