package backend

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// ParamPrefix begins the query parameters of a URL that are ours; all others are the client library's.
const ParamPrefix = "lock_"

// A URL is a store's URL cut into its parts. It is cut here, not by net/url, which refuses several hosts and escaped
// sockets that client libraries accept.
type URL struct {
	Scheme   string // lower case
	User     string // decoded
	Password string // decoded
	HasUser  bool   // there was an @, even if User is empty
	Hosts    []string
	Path     string // raw, with its leading slash; what follows the scheme where there is no //
	Query    string // raw, without ?
}

// SplitURL cuts raw into its parts. Errors match ErrInvalid and never show what raw holds behind its scheme.
func SplitURL(raw string) (URL, error) {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok || !validScheme(scheme) {
		return URL{}, fmt.Errorf("%w: url does not begin with a scheme, as in redis://host", ErrInvalid)
	}
	u := URL{Scheme: strings.ToLower(scheme)}
	fail := func(what string) (URL, error) {
		return URL{}, fmt.Errorf("%w: %s url: %s", ErrInvalid, u.Scheme, what)
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] == 0x7f {
			return fail("blank or control character; escape it as %XX")
		}
	}
	if strings.Contains(rest, "#") {
		return fail("'#' is not allowed; escape it as %23")
	}
	rest, u.Query, _ = strings.Cut(rest, "?")
	authority, hasAuthority := strings.CutPrefix(rest, "//")
	if !hasAuthority {
		u.Path = rest
		return u, nil
	}
	if i := strings.IndexByte(authority, '/'); i >= 0 {
		authority, u.Path = authority[:i], authority[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		var err1, err2 error
		u.User, err1 = url.PathUnescape(user)
		u.Password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return fail("bad %XX escape in user or password")
		}
		u.HasUser = true
		authority = authority[i+1:]
	}
	if authority != "" {
		u.Hosts = strings.Split(authority, ",")
		for _, h := range u.Hosts {
			if h == "" {
				return fail("empty host")
			}
			if !validPort(h) {
				return fail("a port is not a number (a '/' or '?' in a password is written %2F or %3F)")
			}
		}
	}
	return u, nil
}

// validPort reports whether what follows a host's colon, if anything, is a number. A password with a bare / or ? leaves
// its beginning there.
func validPort(host string) bool {
	host = host[strings.LastIndexByte(host, ']')+1:] // an IPv6 address is in brackets
	_, port, _ := strings.Cut(host, ":")
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return true
}

func validScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		other := s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return s != ""
}

// TakeParams removes our own parameters from a URL's query and returns them with the rest of the URL, which is the
// client library's and keeps every byte. A parameter of ours that is not in known, or given twice, is ErrInvalid.
func TakeParams(raw string, known ...string) (rest string, params map[string]string, err error) {
	rest, params, err = cutParams(raw, func(name string) bool { return strings.HasPrefix(name, ParamPrefix) })
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(known, name) {
			return "", nil, fmt.Errorf("%w: url: unknown parameter %q%s", ErrInvalid, name, knownParams(known))
		}
	}
	return rest, params, err
}

// TakeParam removes one parameter of ours and leaves the others. ok tells whether it was there.
func TakeParam(raw, name string) (rest, value string, ok bool, err error) {
	rest, params, err := cutParams(raw, func(n string) bool { return n == name })
	value, ok = params[name]
	return rest, value, ok, err
}

func cutParams(raw string, ours func(name string) bool) (rest string, params map[string]string, err error) {
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

// HostPort returns a host of a URL with its port, or with the port that is given if it has none. An IPv6 address without one may stand in
// brackets or not. Errors name the host, and match none of ours.
func HostPort(host, port string) (string, error) {
	bare := host
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		bare = host[1 : len(host)-1]
	}
	if ip := net.ParseIP(bare); ip != nil {
		return net.JoinHostPort(bare, port), nil
	}
	if !strings.ContainsAny(host, ":[]") {
		return net.JoinHostPort(host, port), nil
	}
	h, p, err := net.SplitHostPort(host)
	if err != nil || h == "" || p == "" {
		return "", fmt.Errorf("host %q is not host or host:port", host)
	}
	return net.JoinHostPort(h, p), nil
}
