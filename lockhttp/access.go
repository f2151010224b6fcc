package lockhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/anylock/lock"
)

// A Client may use a Server within its Rights. It authenticates with a bearer token, the token as the password of HTTP
// basic authentication, or a TLS certificate that the http.Server has verified.
type Client struct {
	// Name consists of letters, digits, '-', '_' and '.'. It is part of the client's owners at the store.
	Name        string  `json:"name"`
	Token       string  `json:"token,omitempty"`        // 16 characters at least
	TokenSHA256 string  `json:"token_sha256,omitempty"` // in hexadecimal, instead of Token
	Certificate string  `json:"certificate,omitempty"`  // the common name or a DNS name of the client's certificate
	Rights      []Right `json:"rights"`
}

// A Right allows actions on the keys that begin with Prefix, which may be empty.
type Right struct {
	Prefix string   `json:"prefix"`
	Allow  []Action `json:"allow"`
}

// An Action is what a Right allows.
type Action string

// The actions.
const (
	Take  Action = "take"  // acquire, renew, release, watch and inspect
	List  Action = "list"  // list and inspect, and the status page
	Break Action = "break" // end the lease of another
)

// A caller is the client of one request.
type caller struct {
	id     string // identifies the caller for limits: the client's name, or an address
	client *Client
}

// name returns the client's name, which is part of its owners at the store. It is empty for a caller without a name.
func (c caller) name() string {
	if c.client == nil {
		return ""
	}
	return c.client.Name
}

// may reports whether the caller may do any of actions to key.
func (c caller) may(key string, actions ...Action) bool {
	return c.client == nil || c.client.allows(actions, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// mayUnder reports whether the caller may do action to some keys that begin with prefix.
func (c caller) mayUnder(prefix string, action Action) bool {
	return c.client == nil || c.client.allows([]Action{action}, func(p string) bool {
		return strings.HasPrefix(prefix, p) || strings.HasPrefix(p, prefix)
	})
}

func (c *Client) allows(actions []Action, under func(prefix string) bool) bool {
	return slices.ContainsFunc(c.Rights, func(r Right) bool {
		return under(r.Prefix) && slices.ContainsFunc(actions, func(a Action) bool { return slices.Contains(r.Allow, a) })
	})
}

// access finds the client of a request.
type access struct {
	open         bool // to everybody
	tokens       map[[sha256.Size]byte]*Client
	certificates map[string]*Client
}

const minTokenLen = 16

func newAccess(clients []Client) (access, error) {
	a := access{
		open: len(clients) == 0, tokens: make(map[[sha256.Size]byte]*Client), certificates: make(map[string]*Client),
	}
	names := make(map[string]bool)
	for i := range clients {
		c := clients[i]
		err := a.add(&c)
		if err == nil && names[c.Name] {
			err = errors.New("there are two of this name")
		}
		if err != nil {
			return a, fmt.Errorf("%w: client %q: %w", lock.ErrInvalid, c.Name, err)
		}
		names[c.Name] = true
	}
	return a, nil
}

func (a *access) add(c *Client) error {
	if err := c.validate(); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(c.Token))
	if c.TokenSHA256 != "" {
		b, err := hex.DecodeString(c.TokenSHA256)
		if err != nil || len(b) != sha256.Size {
			return errors.New("token_sha256 is not 64 hexadecimal digits")
		}
		sum = [sha256.Size]byte(b)
	}
	if c.Token != "" || c.TokenSHA256 != "" {
		if a.tokens[sum] != nil {
			return errors.New("another client has the same token")
		}
		a.tokens[sum] = c
	}
	if c.Certificate != "" {
		if a.certificates[c.Certificate] != nil {
			return errors.New("another client has the same certificate")
		}
		a.certificates[c.Certificate] = c
	}
	c.Token = "" // only its hash is needed from here
	return nil
}

func (c *Client) validate() error {
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	switch {
	case c.Name == "" || len(c.Name) > maxClientLen || strings.ContainsFunc(c.Name, strange):
		return fmt.Errorf("the name is not 1 to %d letters, digits, '-', '_' and '.'", maxClientLen)
	case c.Token == "" && c.TokenSHA256 == "" && c.Certificate == "":
		return errors.New("it has neither a token nor a certificate")
	case c.Token != "" && c.TokenSHA256 != "":
		return errors.New("it has both token and token_sha256")
	case c.Token != "" && len(c.Token) < minTokenLen:
		return fmt.Errorf("the token is shorter than %d characters", minTokenLen)
	}
	for _, r := range c.Rights {
		for _, action := range r.Allow {
			if action != Take && action != List && action != Break {
				return fmt.Errorf("unknown action %q: want take, list or break", action)
			}
		}
	}
	return nil
}

// identify returns the caller of r. ok is false if r does not prove who the caller is.
func (a *access) identify(r *http.Request) (_ caller, ok bool) {
	if a.open {
		return caller{id: addressOf(r)}, true
	}
	if c := a.byToken(tokenOf(r)); c != nil {
		return caller{id: c.Name, client: c}, true
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		leaf := r.TLS.VerifiedChains[0][0]
		for _, name := range append([]string{leaf.Subject.CommonName}, leaf.DNSNames...) {
			if c := a.certificates[name]; c != nil {
				return caller{id: c.Name, client: c}, true
			}
		}
	}
	return caller{id: addressOf(r)}, false
}

// byToken looks up the token's hash, so that the time of the look-up reveals nothing about the tokens.
func (a *access) byToken(token string) *Client {
	if token == "" {
		return nil
	}
	return a.tokens[sha256.Sum256([]byte(token))]
}

func tokenOf(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	_, password, _ := r.BasicAuth()
	return password
}

// addressOf returns the peer's address without its port. All peers of a Unix socket have the same address.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "local"
	}
	return host
}

// isHostAllowed reports whether r names one of Options.Hosts. Without Hosts, every name is allowed.
func (s *Server) isHostAllowed(r *http.Request) bool {
	if len(s.options.Hosts) == 0 {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	for _, allowed := range s.options.Hosts {
		if strings.EqualFold(host, strings.Trim(allowed, "[]")) {
			return true
		}
	}
	return false
}
