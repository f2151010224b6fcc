package zookeeper

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
)

const (
	allLocks       = "/anylock" // the node below the chroot that contains all locks
	defaultTimeout = 2 * time.Second
)

// Options configure a Backend. Nil and the zero Options mean the defaults. Clients exclude each other only if they use the
// same Chroot, and they need the same User.
type Options struct {
	// Chroot is the path of the node that contains the node "anylock", which contains all locks, as in "/apps/shop". It
	// is created if it is missing. Empty means the root of the tree.
	Chroot string

	// User and Password authenticate by the scheme "digest". Nodes that are created then belong to this user alone; without
	// a user they belong to everybody.
	User, Password string

	// ACL is for the nodes that are created, instead of what follows from User.
	ACL []zk.ACL

	// SessionTimeout is the longest session to ask for; by default it is what the servers grant. It bounds MaxLate and
	// MaxSilence of the Guarantees.
	SessionTimeout time.Duration

	// Timeout bounds each request; 2 s if zero.
	Timeout time.Duration

	// Dial makes the connections, as with TLS; net.DialTimeout if nil. Addresses are host:port as given.
	Dial zk.Dialer
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Timeout == 0 {
		v.Timeout = defaultTimeout
	}
	if v.Dial == nil {
		v.Dial = net.DialTimeout
	}
	if v.Chroot == rootPath {
		v.Chroot = ""
	}
	switch {
	case v.Chroot != "" && !validPath(v.Chroot):
		return v, fmt.Errorf("%w: chroot %q is not a path as in /apps/shop", backend.ErrInvalid, v.Chroot)
	case strings.Contains(v.User, ":"):
		return v, fmt.Errorf("%w: user with a colon", backend.ErrInvalid)
	case v.User == "" && v.Password != "":
		return v, fmt.Errorf("%w: password without a user", backend.ErrInvalid)
	case v.SessionTimeout < 0:
		return v, fmt.Errorf("%w: session timeout %v is negative", backend.ErrInvalid, v.SessionTimeout)
	case v.Timeout < 0:
		return v, fmt.Errorf("%w: timeout %v is negative", backend.ErrInvalid, v.Timeout)
	}
	return v, nil
}

func validPath(path string) bool {
	names, ok := strings.CutPrefix(path, "/")
	if !ok {
		return false
	}
	for name := range strings.SplitSeq(names, "/") {
		if !validName(name) {
			return false
		}
	}
	return true
}

// validName reports whether ZooKeeper takes a name. It refuses more than the manual does: all that is not printable ASCII.
func validName(name string) bool {
	if name == "" || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return false
		}
	}
	return true
}

// New returns a Backend on the ensemble of servers, each host:port. It reaches the ensemble once, within ctx, to learn
// which sessions it grants.
//
// It takes no *zk.Conn of the application's: such a client is one session of one timeout, which changes into another
// session by itself. Options.Dial takes what an application wants to say about connections.
func New(ctx context.Context, servers []string, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: no servers", backend.ErrInvalid)
	}
	for _, s := range servers {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("%w: server %q is not host:port", backend.ErrInvalid, s)
		}
	}
	b := &Backend{
		servers:    append([]string(nil), servers...),
		options:    o,
		root:       o.Chroot + allLocks,
		acl:        o.ACL,
		sessions:   make(map[time.Duration]*session),
		limits:     defaultLimits(),
		first:      handshakeFirst,
		watchAfter: watchAfter,
		idle:       idleTime,
	}
	if o.User != "" {
		b.auth = []byte(o.User + ":" + o.Password)
	}
	if b.acl == nil {
		b.acl = zk.WorldACL(zk.PermAll)
		if o.User != "" {
			b.acl = zk.AuthACL(zk.PermAll)
		}
	}
	b.leases = kit.NewLeases(requests{b}, 2*o.Timeout)
	err = b.probe(ctx)
	if err == nil {
		err = b.prepare(ctx)
	}
	if err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, unavailable(ctx, err)
	}
	return b, nil
}
