package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
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
	if len(v.Namespace) > maxNamespaceLen {
		return v, fmt.Errorf("%w: namespace of %d bytes is longer than %d", backend.ErrInvalid, len(v.Namespace), maxNamespaceLen)
	}
	for part := range strings.SplitSeq(v.Namespace, "/") {
		if part == "" || strings.HasPrefix(part, nameMark) {
			return v, fmt.Errorf("%w: namespace %q has a part that is empty or begins with %s", backend.ErrInvalid,
				v.Namespace, nameMark)
		}
	}
	if v.Timeout < leastTimeout {
		return v, fmt.Errorf("%w: timeout %v is shorter than %v", backend.ErrInvalid, v.Timeout, leastTimeout)
	}
	return v, nil
}

// New returns a Backend on a client that the application owns: Close does not close it. Like opening by URL, it asks the servers, within
// ctx, for the least TTL that they grant and for their versions: see the Guarantees. Nil opts are the defaults.
//
// The Backend uses the client's connection, endpoints, TLS and credentials, but not its KV, Watcher and Lease: wrappers
// put there, as by package namespace, do not count; Options.Namespace does.
//
// Give the client several endpoints, and DialKeepAliveTime and DialKeepAliveTimeout, for connections to a server that
// hangs to be given up.
func New(ctx context.Context, client *clientv3.Client, opts *Options) (*Backend, error) {
	b, err := onClient(client, opts)
	if err != nil {
		return nil, err
	}
	if err = reach(ctx, client, b.options.Timeout); err == nil {
		err = b.lookAround(ctx)
	}
	if err == nil {
		err = b.keepLoggedIn(ctx)
	}
	if err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, openError(ctx, err)
	}
	return b, nil
}

// onClient returns a Backend that has made no request.
func onClient(client *clientv3.Client, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if client == nil || client.ActiveConnection() == nil {
		return nil, fmt.Errorf("%w: nil client, or one without a connection", backend.ErrInvalid)
	}
	return newBackend(client, o), nil
}
