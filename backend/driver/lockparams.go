package driver

import (
	"fmt"
	"strings"

	"github.com/anylock/lock/backend"
)

// Names of the parameters that package lock has for every store.
const (
	paramPrefix    = ParamPrefix + "prefix"
	paramTokenBase = ParamPrefix + "token_base"
)

// TakePrefix removes the parameter lock_prefix from a URL. It returns the rest of the URL and the prefix, which begins
// every key. The prefix is empty if the parameter is missing.
func TakePrefix(raw string) (rest, prefix string, err error) {
	rest, u, err := take(raw, Param{Name: paramPrefix, mayBeEmpty: true})
	return rest, u.Text(paramPrefix), err
}

// TakeTokenBase removes the parameter lock_token_base from a URL. It returns the rest of the URL and the base, which is
// added to every number of the store: a store that replaces another then continues where the other ended. The base is 0
// if the parameter is missing.
func TakeTokenBase(raw string) (rest string, base uint64, err error) {
	rest, u, err := take(raw, Param{Name: paramTokenBase, Type: Number, Max: backend.TokenLimit - 1})
	return rest, uint64(u.Number(paramTokenBase)), err
}

// take removes a parameter from a URL. It returns the rest of the URL, byte for byte, and the URL with the parameter's
// value.
func take(raw string, p Param) (rest string, u URL, err error) {
	if u, err = SplitURL(raw); err != nil {
		return "", URL{}, err
	}
	if err := u.readParams([]Param{p}, func(string) bool { return true }); err != nil {
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
