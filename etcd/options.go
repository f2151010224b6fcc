package etcd

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	defaultNamespace = "anylock"
	defaultTimeout   = 5 * time.Second
	leastTimeout     = 100 * time.Millisecond
)

// Options configure a Backend. Nil and the zero Options mean the defaults. Clients exclude each other only if they use
// the same Namespace.
type Options struct {
	// Namespace is the prefix of every key, "anylock" if empty: one or more parts, separated by slashes. A part is not
	// empty and does not begin with "~".
	Namespace string

	// Timeout is the time limit for each request including its repetitions; 5 s if zero. It also limits how long a request
	// may continue in the background after its context has ended. A request that is not answered within a quarter of
	// Timeout is sent again, to another endpoint if there are several.
	Timeout time.Duration
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	v.Namespace = cmp.Or(v.Namespace, defaultNamespace)
	v.Timeout = cmp.Or(v.Timeout, defaultTimeout)
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
