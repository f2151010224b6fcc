package driver

import (
	"fmt"
	"strings"

	"github.com/anylock/lock/backend"
)

// The parameters that package lock has for every store.
var (
	paramPrefix    = Param{Name: ParamPrefix + "prefix", mayBeEmpty: true}
	paramTokenBase = Param{Name: ParamPrefix + "token_base", Type: Number, Max: backend.TokenLimit - 1}
)

// TakeLockParams removes the parameters lock_prefix and lock_token_base from a URL. It returns the rest of the URL, the
// prefix, which begins every key, and the base, which is added to every number of the store: a store that replaces
// another then continues where the other ended. The prefix is empty, and the base 0, if its parameter is missing.
func TakeLockParams(raw string) (rest, prefix string, base uint64, err error) {
	rest, u, err := take(raw, paramPrefix, paramTokenBase)
	return rest, u.Text(paramPrefix.Name), uint64(u.Number(paramTokenBase.Name)), err
}

// WithoutTokenBase returns a URL without the parameter lock_token_base.
func WithoutTokenBase(raw string) (rest string, err error) {
	rest, _, err = take(raw, paramTokenBase)
	return rest, err
}

// take removes parameters from a URL. It returns the rest of the URL, byte for byte, and the URL with the parameters'
// values.
func take(raw string, params ...Param) (rest string, u URL, err error) {
	if u, err = SplitURL(raw); err != nil {
		return "", URL{}, err
	}
	if err := u.readParams(params, func(string) bool { return true }); err != nil {
		return "", URL{}, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	rest, _, _ = strings.Cut(raw, "?")
	if u.Query != "" {
		rest += "?" + u.Query
	}
	return rest, u, nil
}

// AddTokenBase returns a store's number plus base, or 0 if the store has no number. ErrUnsupported means that the sum
// is not below TokenLimit.
func AddTokenBase(number, base uint64) (uint64, error) {
	switch {
	case number == 0:
		return 0, nil
	case number >= backend.TokenLimit || base >= backend.TokenLimit-number:
		return 0, fmt.Errorf("%w: the store's number %d and the token base %d are together not below 2^55",
			backend.ErrUnsupported, number, base)
	}
	return number + base, nil
}
