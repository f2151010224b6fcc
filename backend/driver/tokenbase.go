package driver

import (
	"fmt"
	"strconv"

	"github.com/anylock/lock/backend"
)

const paramTokenBase = ParamPrefix + "token_base"

// TakeTokenBase removes the parameter lock_token_base from a URL. It returns the rest of the URL and the base, which is
// added to every number of the store: a store that replaces another then continues where the other ended. The base is 0
// if the parameter is missing.
func TakeTokenBase(raw string) (rest string, base uint64, err error) {
	rest, text, ok, err := takeParam(raw, paramTokenBase)
	if err != nil || !ok {
		return rest, 0, err
	}
	base, err = strconv.ParseUint(text, 10, 64)
	if err != nil || base >= backend.TokenLimit {
		return "", 0, fmt.Errorf("%w: url: lock_token_base is not a number below 2^55", backend.ErrInvalid)
	}
	return rest, base, nil
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
