package etcd

import (
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

const (
	defaultNamespace = "anylock"
	defaultTimeout   = 5 * time.Second
	maxNamespaceLen  = 512
	leastTimeout     = 100 * time.Millisecond
)

// Options configure a Backend. Nil and the zero Options mean the defaults. Clients exclude each other only if they use the
// same Namespace.
type Options struct {
	// Namespace begins every key, "anylock" if empty: one or more parts with a slash between them. A part is not empty
	// and does not begin with "~".
	Namespace string

	// MinTTL is what the servers grant at least, 1.5 times their election timeout rounded up to seconds; 2 s if zero,
	// which is right for the default election timeout. Acquire is ErrUnsupported where a server grants more than asked.
	// A Backend opened by URL asks the server.
	MinTTL time.Duration

	// Timeout bounds each request together with its repetitions, and so what a request may outlast its context in the
	// background; 5 s if zero. A request that is not answered within a quarter of it is sent again, to another endpoint
	// if there are several.
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
	if v.MinTTL == 0 {
		v.MinTTL = usualMinTTL
	}
	if len(v.Namespace) > maxNamespaceLen {
		return v, fmt.Errorf("%w: namespace of %d bytes is longer than %d", backend.ErrInvalid, len(v.Namespace), maxNamespaceLen)
	}
	for part := range strings.SplitSeq(v.Namespace, "/") {
		if part == "" || strings.HasPrefix(part, nameMark) {
			return v, fmt.Errorf("%w: namespace %q has a part that is empty or begins with %s", backend.ErrInvalid,
				v.Namespace, nameMark)
		}
	}
	switch {
	case v.Timeout < leastTimeout:
		return v, fmt.Errorf("%w: timeout %v is shorter than %v", backend.ErrInvalid, v.Timeout, leastTimeout)
	case v.MinTTL < granularity || v.MinTTL%granularity != 0 || v.MinTTL > time.Minute:
		return v, fmt.Errorf("%w: min ttl %v is not whole seconds from 1 s to 1 min", backend.ErrInvalid, v.MinTTL)
	}
	return v, nil
}

// New returns a Backend on a client that the application owns: Close does not close it. It makes no request. Nil opts are
// the defaults.
//
// The Backend uses the client's connection, endpoints, TLS and credentials, but not its KV, Watcher and Lease: wrappers
// put there, as by package namespace, do not count; Options.Namespace does. It cannot know the servers' version: the
// Guarantees are those of 3.4.42, 3.5.28, 3.6.9 or newer.
//
// Give the client several endpoints, and DialKeepAliveTime and DialKeepAliveTimeout, for connections to a server that
// hangs to be given up.
func New(client *clientv3.Client, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if client == nil || client.ActiveConnection() == nil {
		return nil, fmt.Errorf("%w: nil client, or one without a connection", backend.ErrInvalid)
	}
	return newBackend(client, o), nil
}
