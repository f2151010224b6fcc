package driver

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/anylock/lock/backend"
)

// A URL is a store's URL, split into its parts by SplitURL or by Driver.Parse. Parse also checks the parts and reads
// the parameters. Neither uses net/url, which refuses several hosts and escaped sockets that client libraries accept.
type URL struct {
	Raw      string // the whole URL, with its passwords
	Scheme   string // lower case
	Secure   bool   // the scheme uses TLS; set by Parse
	User     string // decoded
	Password string // decoded
	HasUser  bool   // the URL has an @, even if User is empty
	Hosts    []string
	Path     string // with its leading slash; in a URL without //, everything after the scheme; decoded by Parse only
	Query    string // not decoded, without ?; from Parse, only the parameters of the client library

	hasSlashes bool // // follows the scheme
	params     map[string][]string
}

// String returns the URL as Redact shows it.
func (u URL) String() string { return Redact(u.Raw) }

// MarshalText returns String, for JSON and logs.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// GoString returns String with the type's name, for %#v.
func (u URL) GoString() string { return "URL(" + u.String() + ")" }

// SplitURL splits raw into its parts. It refuses an ambiguous URL, which two parsers could split in different places:
// for example one with an unescaped / ? # @ [ or ] in its password. Errors match ErrInvalid. They show the scheme and
// what to escape, and nothing else of raw.
func SplitURL(raw string) (URL, error) {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok || !validScheme(scheme) {
		return URL{}, fmt.Errorf("%w: url does not begin with a scheme, as in redis://host", backend.ErrInvalid)
	}
	u := URL{Raw: raw, Scheme: strings.ToLower(scheme)}
	if what := u.split(rest); what != "" {
		return URL{}, fmt.Errorf("%w: %s url: %s", backend.ErrInvalid, u.Scheme, what)
	}
	return u, nil
}

// split splits rest, which follows the scheme and its colon. It returns what is wrong with rest, or "".
func (u *URL) split(rest string) (wrong string) {
	if strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "blank or control character; escape it as %XX"
	}
	if strings.Contains(rest, "#") {
		return "'#' is not allowed; escape it as %23"
	}
	rest, u.Query, _ = strings.Cut(rest, "?")
	if wrong := ambiguousQuery(u.Query); wrong != "" {
		return wrong
	}
	authority, hasSlashes := strings.CutPrefix(rest, "//")
	u.hasSlashes = hasSlashes
	if !hasSlashes {
		if u.Path = rest; strings.Contains(rest, "@") {
			return "'@' in a url without //; write // behind the scheme, or escape @ as %40"
		}
		return ""
	}
	if i := strings.IndexByte(authority, '/'); i >= 0 {
		authority, u.Path = authority[:i], authority[i:]
	}
	beforeAt, _, hasAt := strings.Cut(u.Path, "@")
	if authority == "" && (!hasAt || !strings.Contains(beforeAt, ":")) { // a file's path may have an @
		return ""
	}
	if hasAt {
		return "'@' behind a '/'; escape / as %2F in a password, and @ as %40 everywhere else"
	}
	return u.splitAuthority(authority)
}

func (u *URL) splitAuthority(authority string) (wrong string) {
	userinfo, hosts, hasUser := strings.Cut(authority, "@")
	if !hasUser {
		userinfo, hosts = "", authority
	}
	user, password, _ := strings.Cut(userinfo, ":")
	var err1, err2 error
	u.User, err1 = url.PathUnescape(user)
	u.Password, err2 = url.PathUnescape(password)
	u.HasUser = hasUser
	switch {
	case strings.Contains(hosts, "@"):
		return "more than one '@'; escape @ as %40 in a user or password"
	case strings.ContainsAny(userinfo, `[]\`):
		return `'[', ']' or '\' in a user or password; escape them as %5B, %5D and %5C`
	case err1 != nil || err2 != nil:
		return "bad %XX escape in user or password; escape % as %25"
	case strings.Contains(u.User, ":"):
		return "escaped colon in a user; do not escape the colon that separates user and password"
	case hosts == "":
		return ""
	}
	u.Hosts = strings.Split(hosts, ",")
	for _, h := range u.Hosts {
		if h == "" {
			return "empty host"
		}
		if !validHost(h) {
			return "a port is not a number, or a '[' or ']' is not around an IPv6 address; " +
				"escape / ? # @ [ ] in a password as %2F %3F %23 %40 %5B %5D"
		}
	}
	return ""
}

// ambiguousQuery returns what makes a query ambiguous, or "". An @ in the query may end a password that began before
// the query. A parameter after a secret may be the rest of the secret.
func ambiguousQuery(query string) (wrong string) {
	if strings.Contains(query, "@") {
		return "'@' behind a '?'; escape ? as %3F in a password, and @ as %40 everywhere else"
	}
	if strings.Contains(query, ";") {
		return "';' behind a '?'; escape it as %3B"
	}
	secret := false
	for param := range strings.SplitSeq(query, "&") {
		name, value, hasValue := strings.Cut(param, "=")
		if secret && param != "" && (!hasValue || !plainName(name)) {
			return "a parameter behind a password is not name=value; escape & as %26 in a password"
		}
		secret = secret || secretParam(name, value)
	}
	return ""
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// onlyOf reports whether every byte of s is one of the characters in set, which are ASCII.
func onlyOf(s, set string) bool { return strings.Trim(s, set) == "" }

// plainName reports whether name needs no escape.
func plainName(name string) bool { return name != "" && onlyOf(name, letters+digits+"_-.") }

// validHost reports whether a host's colon, if any, precedes a number, and its brackets, if any, enclose everything
// before the colon.
func validHost(host string) bool {
	if address, ok := strings.CutPrefix(host, "["); ok {
		address, host, ok = strings.Cut(address, "]")
		if !ok || strings.ContainsAny(address, `[\`) || host != "" && host[0] != ':' {
			return false
		}
	}
	host, port, hasPort := strings.Cut(host, ":")
	return !strings.ContainsAny(host, `[]\`) && onlyOf(port, digits) && (port != "" || !hasPort)
}

func validScheme(s string) bool {
	return s != "" && onlyOf(s[:1], letters) && onlyOf(s, letters+digits+"+-.")
}

// Escape escapes text for any part of a URL: every byte except letters, digits and - _ . ~ becomes %XX.
func Escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// HostPort returns a host of a URL with its port, or with the given port if the host has none. An IPv6 address without
// a port may be in brackets or not. Errors do not show the host, and match no error of package backend.
func HostPort(host, port string) (string, error) {
	bare := host
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		bare = host[1 : len(host)-1]
	}
	if ip := net.ParseIP(bare); ip != nil {
		return net.JoinHostPort(bare, port), nil
	}
	if !strings.ContainsAny(host, ":[]%") {
		return net.JoinHostPort(host, port), nil
	}
	h, p, err := net.SplitHostPort(host)
	n, perr := strconv.ParseUint(p, 10, 16)
	if err != nil || perr != nil || n == 0 || h == "" || strings.Contains(h, "%") && !strings.HasPrefix(host, "[") {
		return "", fmt.Errorf("a host is not host or host:port, with a port from 1 to 65535")
	}
	return net.JoinHostPort(h, p), nil
}
