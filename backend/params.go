package backend

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// TakeParams removes our own parameters from a URL's query and returns them with the rest of the URL, which is the
// client library's and keeps every byte. A parameter of ours that is not in known, or given twice, is ErrInvalid.
func TakeParams(raw string, known ...string) (rest string, params map[string]string, err error) {
	rest, params, err = cutParams(raw, func(name string) bool { return strings.HasPrefix(name, ParamPrefix) })
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(known, name) {
			_, query, _ := strings.Cut(raw, "?")
			return "", nil, fmt.Errorf("%w: url: %s%s", ErrInvalid, UnknownParam(query, name), knownParams(known))
		}
	}
	return rest, params, err
}

// TakeParam removes one parameter of ours and leaves the others. ok reports whether the URL had it.
func TakeParam(raw, name string) (rest, value string, ok bool, err error) {
	rest, params, err := cutParams(raw, func(n string) bool { return n == name })
	value, ok = params[name]
	return rest, value, ok, err
}

func cutParams(raw string, ours func(name string) bool) (rest string, params map[string]string, err error) {
	if _, err := SplitURL(raw); err != nil {
		return "", nil, err
	}
	base, query, ok := strings.Cut(raw, "?")
	if !ok {
		return raw, nil, nil
	}
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		// A client library decodes names, so that an escaped one would slip past us.
		name, err := url.QueryUnescape(name)
		if err != nil {
			return "", nil, fmt.Errorf("%w: url: bad %%XX escape in a parameter's name", ErrInvalid)
		}
		if !ours(name) {
			kept = append(kept, pair)
			continue
		}
		if _, twice := params[name]; twice {
			return "", nil, fmt.Errorf("%w: url: parameter %q is given twice", ErrInvalid, name)
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return "", nil, fmt.Errorf("%w: url: bad %%XX escape in parameter %q", ErrInvalid, name)
		}
		if params == nil {
			params = make(map[string]string)
		}
		params[name] = value
	}
	if len(kept) == 0 {
		return base, params, nil
	}
	return base + "?" + strings.Join(kept, "&"), params, nil
}

func knownParams(known []string) string {
	if len(known) == 0 {
		return "; this store takes none"
	}
	return "; known: " + strings.Join(known, ", ")
}

// UnknownParam says that a store does not know the parameter name of query. It names the parameter only if no secret precedes the parameter,
// because a secret with an unescaped & looks like several parameters.
func UnknownParam(query, name string) string {
	for param := range strings.SplitSeq(query, "&") {
		given, value, _ := strings.Cut(param, "=")
		if plain, err := url.QueryUnescape(given); err == nil && plain == name {
			break
		}
		if secretParam(given, value) {
			return "unknown parameter behind a password (escape & as %26 in a password)"
		}
	}
	return fmt.Sprintf("unknown parameter %q", name)
}
