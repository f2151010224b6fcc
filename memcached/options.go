package memcached

import (
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

const (
	defaultTimeout = 2 * time.Second
	defaultConns   = 32
	maxConns       = 1000
)

// Options tune a Backend. The zero Options, and nil, are the defaults. Clients that shall exclude each other need the
// same Namespace.
type Options struct {
	// Namespace begins the name of every item; "anylock" if empty. It has at most 64 letters, digits and characters of
	// "-_./@".
	Namespace string

	// Timeout bounds each step (an acquire, a renewal, a release), with the repetitions after a broken connection; 2 s if
	// zero.
	Timeout time.Duration
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Namespace == "" {
		v.Namespace = defaultNamespace
	}
	if v.Timeout == 0 {
		v.Timeout = defaultTimeout
	}
	if v.Timeout < 0 {
		return v, fmt.Errorf("%w: timeout %v is negative", backend.ErrInvalid, v.Timeout)
	}
	return v, validateNamespace(v.Namespace)
}

// New returns a Backend on a client that the application owns: Close does not close it. It makes no request. Nil opts are
// the defaults.
//
// The client must reach one server. With several, gomemcache picks one by a checksum of the item's name modulo the number
// of servers, and New cannot see that: two clients exclude each other only while they have the same servers in the same
// order, and a change of the list moves most keys to servers that know nothing of their holders.
//
// A client should have a MaxIdleConns as high as the number of its requests at once: beyond it, gomemcache opens a
// connection for each request. Acquire returns when its context ends whatever the client's Timeout is, but that decides
// how long an unanswered request then occupies a goroutine.
//
// On a client of one's own, other than on connections opened by URL, the two requests of a renewal or release may go over
// different connections. Should the server restart between the two, and a new owner's item get the same
// compare-and-swap number as the old one, the late request replaces it. Open by URL where restarts matter that much.
func New(client *memcache.Client, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, fmt.Errorf("%w: nil client", backend.ErrInvalid)
	}
	return newBackend(&shared{client: client}, o), nil
}
