package driver

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParamPrefix begins the names of those parameters that a client library could also have.
const ParamPrefix = "lock_"

// Names of parameters that several stores have, with the same meaning.
const (
	ParamTimeout = "timeout" // time limit for one request
	ParamCA      = "cacert"  // see package tlsurl
	ParamCert    = "cert"
	ParamKey     = "key"
)

// A Param is a parameter of a store's URLs.
type Param struct {
	Name string
	Help string // one line for people, with the default
	Type ParamType
	// Min and Max bound a Number. If Max is 0, there is no upper bound.
	Min, Max int64
	// Many allows a URL to have the parameter several times.
	Many bool

	secure     bool // allowed only in URLs with TLS
	mayBeEmpty bool // the empty Text is allowed
}

// A ParamType is the type of a parameter's value. No value of a driver's parameter may be empty.
type ParamType int

const (
	Text     ParamType = iota
	Duration           // positive, as time.ParseDuration reads it
	Number             // decimal, from Min to Max
	Bool               // true or false; URL.Text returns it
)

// String returns the type's name for people.
func (t ParamType) String() string { return [...]string{"text", "duration", "number", "true|false"}[t] }

// TimeoutParam returns the parameter for the time limit of one request. usual is the limit without the parameter.
func TimeoutParam(usual time.Duration) Param {
	return Param{Name: ParamTimeout, Type: Duration, Help: "time limit for one request; default " + usual.String()}
}

var tlsParams = []Param{
	{Name: ParamCA, secure: true, Help: "PEM file with the authorities to trust; default those of this machine"},
	{Name: ParamCert, secure: true, Help: "PEM file with the client's certificate"},
	{Name: ParamKey, secure: true, Help: "PEM file with the key of the client's certificate"},
}

// AllParams returns the parameters that any of d's URLs may have, sorted by name.
func (d Driver) AllParams() []Param {
	secure := slices.IndexFunc(d.URLs, func(f URLForm) bool { return f.Secure != "" })
	return d.URLs[max(secure, 0)].params(d.Params)
}

// check returns what is wrong with a value, or "". The result does not contain the value, which may be part of a
// password.
func (p Param) check(value string) (wrong string) {
	switch p.Type {
	case Text:
		if value == "" && !p.mayBeEmpty {
			return "is empty"
		}
	case Duration:
		if d, err := time.ParseDuration(value); err != nil || d <= 0 {
			return "is not a positive duration, as in 10s"
		}
	case Number:
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < p.Min || n > cmp.Or(p.Max, math.MaxInt64) {
			return fmt.Sprintf("is not a number from %d to %d", p.Min, cmp.Or(p.Max, math.MaxInt64))
		}
	case Bool:
		if value != "true" && value != "false" {
			return "is not true or false"
		}
	}
	return ""
}

// readParams moves the parameters in known from u.Query to u.params. All others are an error, unless they are allowed.
func (u *URL) readParams(known []Param, allowed func(name string) bool) error {
	var kept []string
	query := u.Query
	u.params = make(map[string][]string)
	for param := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(param, "=")
		// Client libraries decode names, so without this an escaped name would bypass the checks.
		name, err := url.QueryUnescape(name)
		if err != nil {
			return errors.New("bad %XX escape in a parameter's name")
		}
		i := slices.IndexFunc(known, func(p Param) bool { return p.Name == name })
		if i < 0 {
			if param != "" && !allowed(name) {
				return errors.New(UnknownParam(query, name) + namesOf(known))
			}
			kept = append(kept, param)
			continue
		}
		p := known[i]
		if value, err = url.QueryUnescape(value); err != nil {
			return fmt.Errorf("bad %%XX escape in parameter %q", name)
		}
		if len(u.params[name]) > 0 && !p.Many {
			return fmt.Errorf("parameter %q is given twice", name)
		}
		if wrong := p.check(value); wrong != "" {
			return fmt.Errorf("parameter %q %s", name, wrong)
		}
		if p.secure && !u.Secure {
			return fmt.Errorf("parameter %q is for URLs with TLS", name)
		}
		u.params[name] = append(u.params[name], value)
	}
	u.Query = strings.Join(kept, "&")
	return nil
}

func namesOf(known []Param) string {
	if len(known) == 0 {
		return "; this store has none"
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}
	return "; known: " + strings.Join(names, ", ")
}

// Text returns a parameter's value, or "" if the URL does not have the parameter. Like all methods for parameters, it
// requires a URL from Parse.
func (u URL) Text(name string) string { return strings.Join(u.params[name], "") }

// Texts returns the values of a parameter that may be given several times.
func (u URL) Texts(name string) []string { return u.params[name] }

// Duration returns the value of a parameter of type Duration, or 0 if the URL does not have the parameter.
func (u URL) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(u.Text(name))
	return d
}

// Number returns the value of a parameter of type Number, or 0 if the URL does not have the parameter.
func (u URL) Number(name string) int64 {
	n, _ := strconv.ParseInt(u.Text(name), 10, 64)
	return n
}

// UnknownParam returns the error message for the parameter name of query, which a store does not know. The message
// contains the name only if it cannot be the rest of a password with an unescaped &: no earlier parameter may have a
// secret, or a URL that is cut off before its @.
func UnknownParam(query, name string) string {
	for param, rest := "", query; rest != ""; {
		param, rest, _ = strings.Cut(rest, "&")
		given, value, _ := strings.Cut(param, "=")
		if plain, err := url.QueryUnescape(given); err == nil && plain == name {
			break
		}
		plain, err := url.QueryUnescape(value)
		cutOff := strings.Contains(plain, "://") && strings.Contains(rest, "%40")
		if err != nil || cutOff || secretParam(given, value) {
			return "unknown parameter behind a password (escape & as %26 in a password)"
		}
	}
	return fmt.Sprintf("unknown parameter %q", name)
}
