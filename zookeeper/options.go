package zookeeper

import (
	"cmp"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

const (
	allLocks       = "/anylock" // the node below the chroot that contains all locks
	longestChroot  = 512        // bytes, so that a batch of renewals fits into a request
	defaultTimeout = 2 * time.Second
)

// Options configure a Backend. Nil and the zero Options mean the defaults. Clients exclude each other only if they use
// the same Chroot, and they need the same User.
type Options struct {
	// Chroot is the path of the node that contains the node "anylock", which contains all locks, as in "/apps/shop". It
	// is created if it is missing. Empty means the root of the tree.
	Chroot string

	// User and Password authenticate by the scheme "digest". Created nodes then belong to this user alone. Without a user,
	// created nodes belong to everybody.
	User, Password string

	// ACL is set on created nodes, instead of the ACL that follows from User.
	ACL []zk.ACL

	// SessionTimeout is the longest session to request; by default the longest that the servers grant. It limits MaxLate
	// and MaxSilence of the Guarantees.
	SessionTimeout time.Duration

	// Timeout limits each request; 2 s if zero.
	Timeout time.Duration

	// Dial makes the connections, for example with TLS; net.DialTimeout if nil. Addresses are host:port as given.
	Dial zk.Dialer
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	v.Timeout = cmp.Or(v.Timeout, defaultTimeout)
	if v.Dial == nil {
		v.Dial = net.DialTimeout
	}
	if v.Chroot == rootPath {
		v.Chroot = ""
	}
	if v.ACL == nil {
		v.ACL = zk.WorldACL(zk.PermAll)
		if v.User != "" {
			v.ACL = zk.AuthACL(zk.PermAll)
		}
	}
	switch {
	case len(v.Chroot) > longestChroot:
		return v, fmt.Errorf("%w: chroot of %d bytes, at most %d", backend.ErrInvalid, len(v.Chroot), longestChroot)
	case v.Chroot != "" && !validPath(v.Chroot):
		return v, fmt.Errorf("%w: chroot %q is not a path as in /apps/shop", backend.ErrInvalid, v.Chroot)
	case strings.Contains(v.User, ":"):
		return v, fmt.Errorf("%w: user with a colon", backend.ErrInvalid)
	case v.User == "" && v.Password != "":
		return v, fmt.Errorf("%w: password without a user", backend.ErrInvalid)
	case v.SessionTimeout < 0:
		return v, fmt.Errorf("%w: session timeout %v is negative", backend.ErrInvalid, v.SessionTimeout)
	case v.Timeout < 0 || v.Timeout > backend.MaxTTL: // sums of longer ones would overflow
		return v, fmt.Errorf("%w: timeout %v, want 0 to %v", backend.ErrInvalid, v.Timeout, backend.MaxTTL)
	}
	return v, nil
}

// validPath reports whether ZooKeeper accepts an absolute path, and no other path names the same node. It is stricter
// than the manual: only printable ASCII is valid.
func validPath(p string) bool {
	printable := !strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' })
	return printable && path.IsAbs(p) && path.Clean(p) == p
}
