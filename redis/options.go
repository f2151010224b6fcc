package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
)

const maxReplicas = 1000

// Options tune a Backend. The zero Options, and nil, are the defaults. Clients that must exclude each other need the
// same Namespace.
type Options struct {
	// Namespace begins the name of every key and channel; "anylock" if empty. Braces are not allowed.
	Namespace string

	// MinReplicas is how many replicas must have received a grant or renewal before it counts (command WAIT). The default
	// 0 waits for none. If fewer replicas can be reached, nothing is granted. MinReplicas makes the loss of a lease in a
	// failover unlikely, not impossible: the failover may choose a replica that has not received the lease.
	MinReplicas int

	// Timeout limits each request, and so how long a request may continue in the background after its context has ended;
	// 2 s if zero.
	Timeout time.Duration
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.MinReplicas < 0 || v.MinReplicas > maxReplicas {
		return v, fmt.Errorf("%w: min replicas %d is not from 0 to %d", backend.ErrInvalid, v.MinReplicas, maxReplicas)
	}
	return v, endpoint.Complete(&v.Namespace, &v.Timeout)
}

// New returns a Backend on a client that the application owns: Close does not close it. Like opening by URL, New
// checks, within ctx, whether the servers can keep locks and how they may lose keys: see the Guarantees. Nil opts are
// the defaults.
//
// The client may be a *redis.Client, also one made by redis.NewFailoverClient, or a *redis.ClusterClient. A *redis.Ring
// is ErrUnsupported: it moves keys to other servers when one is down, and so could give two owners the key. With a
// client of another type, MinReplicas and List are ErrUnsupported. Such a client, and every hook, must send a command
// only once if its NoRetry is true.
//
// Acquire returns when its context ends whatever the client's options are, but the client's own timeouts decide how
// long an unanswered request then occupies a goroutine and a connection. Clients should set ContextTimeoutEnabled and
// short timeouts.
func New(ctx context.Context, client redis.UniversalClient, opts *Options) (*Backend, error) {
	b, err := onClient(client, opts)
	if err != nil {
		return nil, err
	}
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// onClient returns a Backend that has made no request.
func onClient(client redis.UniversalClient, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	switch c := client.(type) {
	case nil:
		return nil, fmt.Errorf("%w: nil client", backend.ErrInvalid)
	case *redis.Ring:
		return nil, fmt.Errorf("%w: redis.Ring moves keys between servers", backend.ErrUnsupported)
	case *redis.Client, *redis.ClusterClient:
	default:
		if o.MinReplicas > 0 {
			return nil, fmt.Errorf("%w: min replicas with a client of type %T", backend.ErrUnsupported, c)
		}
	}
	return newBackend(client, o), nil
}
