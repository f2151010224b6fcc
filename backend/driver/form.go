package driver

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/anylock/lock/backend"
)

// A URLForm describes one form of a store's URLs: all parts except the parameters.
type URLForm struct {
	Scheme string // lower case: "etcd"
	Secure string // the scheme with TLS, if there is one: "etcds". Its URLs have parameters for TLS: see package tlsurl
	Hosts  HostLimit
	User   bool // a user and a password are allowed
	Path   PathRule

	// Port is added to hosts without a port. If the scheme is Secure, SecurePort is added instead, or Port if SecurePort
	// is empty. Without Port, hosts stay as they are written, and may be repeated.
	Port, SecurePort string
	// DefaultHost is the host of a URL without hosts. It requires a Port.
	DefaultHost string
}

// HostLimit is how many hosts a URL may have at most.
type HostLimit int

const (
	NoHosts   HostLimit = 0
	OneHost   HostLimit = 1
	ManyHosts HostLimit = 1 << 16
)

// A PathRule determines whether a URL has a path. Slashes alone count as no path: NoPath accepts them, RequiredPath
// does not.
type PathRule int

const (
	NoPath PathRule = iota
	OptionalPath
	RequiredPath
)

// has reports whether a URL with the scheme has the form.
func (f URLForm) has(scheme string) bool { return scheme == f.Scheme || scheme == f.Secure }

// params returns the parameters that URLs of the form may have, sorted by name: own, and those for TLS if the form has
// a scheme with TLS.
func (f URLForm) params(own []Param) []Param {
	if f.Secure != "" {
		own = slices.Concat(own, tlsParams)
	}
	return slices.SortedFunc(slices.Values(own), func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
}

// Schemes returns the schemes of d's URLs.
func (d Driver) Schemes() (list []string) {
	for _, f := range d.URLs {
		list = append(list, f.Scheme)
		if f.Secure != "" {
			list = append(list, f.Secure)
		}
	}
	return list
}

// Parse splits raw, a URL of d, checks that it has one of d.URLs' forms, completes its hosts, decodes its path, and
// reads its parameters. It makes no request and reads no file. Errors match ErrInvalid and show no password.
func (d Driver) Parse(raw string) (URL, error) {
	u, err := SplitURL(raw)
	if err != nil {
		return URL{}, err
	}
	i := slices.IndexFunc(d.URLs, func(f URLForm) bool { return f.has(u.Scheme) })
	if i < 0 {
		schemes := strings.Join(d.Schemes(), ", ")
		return URL{}, fmt.Errorf("%w: %s url: the schemes of %s are %s", backend.ErrInvalid, u.Scheme, d.Name, schemes)
	}
	form := d.URLs[i]
	u.Secure = u.Scheme == form.Secure
	if wrong := u.checkParts(form); wrong != "" {
		return URL{}, fmt.Errorf("%w: %s url: %s%s", backend.ErrInvalid, u.Scheme, wrong, d.examples(form, len(u.Hosts)))
	}
	others := func(name string) bool { return d.OtherParams != "" && !strings.HasPrefix(name, ParamPrefix) }
	if err := u.readParams(form.params(d.Params), others); err != nil {
		return URL{}, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	return u, nil
}

// checkParts checks and completes everything but the parameters. It returns what is wrong, or "".
func (u *URL) checkParts(form URLForm) (wrong string) {
	switch n := len(u.Hosts); {
	case u.HasUser && !form.User:
		return "a user or a password has no meaning"
	case n > int(form.Hosts) && form.Hosts == NoHosts:
		return "a host has no meaning; a path needs three slashes"
	case n > int(form.Hosts):
		return fmt.Sprintf("%d hosts instead of one", n)
	case form.Path == NoPath && strings.Trim(u.Path, "/") != "":
		return "a path has no meaning"
	case form.Path == RequiredPath && strings.Trim(u.Path, "/") == "":
		return "the path is missing"
	case form.Hosts > NoHosts && u.Path != "" && !u.hasSlashes, u.Path != "" && u.Path[0] != '/':
		return "// is missing behind the scheme, or / before the path"
	case form.Hosts > NoHosts && strings.Contains(u.Path, "@"): // a file's path may have an @
		return "'@' behind a '/'; escape / as %2F in a user or password, and @ as %40"
	}
	var err error
	if u.Path, err = url.PathUnescape(u.Path); err != nil {
		return "bad %XX escape in the path"
	}
	return u.completeHosts(form)
}

// examples returns the end of the error message for a URL of a form with so many hosts. It lists d's examples of this
// form. If the form allows only one host, it lists those with several, if there are any.
func (d Driver) examples(form URLForm, hosts int) string {
	var list, several []string
	for _, example := range d.Examples {
		u, _ := SplitURL(example)
		if form.has(u.Scheme) {
			list = append(list, example)
		}
		if len(u.Hosts) > 1 {
			several = append(several, example)
		}
	}
	if form.Hosts == OneHost && hosts > 1 && several != nil {
		list = several
	}
	if len(list) == 0 {
		return ""
	}
	return "; write it as in " + strings.Join(list, " or ")
}

func (u *URL) completeHosts(form URLForm) (wrong string) {
	port := form.Port
	if u.Secure && form.SecurePort != "" {
		port = form.SecurePort
	}
	if port == "" {
		return ""
	}
	if len(u.Hosts) == 0 && form.DefaultHost != "" {
		u.Hosts = []string{form.DefaultHost}
	}
	for i, h := range u.Hosts {
		full, err := HostPort(h, port)
		if err != nil {
			return err.Error()
		}
		if slices.Contains(u.Hosts[:i], full) {
			return "a host is given twice"
		}
		u.Hosts[i] = full
	}
	return ""
}
