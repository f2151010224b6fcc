package redis

import (
	"fmt"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// paramNamespace is the parameter of a URL that gives the namespace.
	paramNamespace = backend.ParamPrefix + "namespace"

	defaultNamespace = "anylock"
	defaultTimeout   = 2 * time.Second
	maxNamespaceLen  = 128
)

// settle gives the options that every store here has their defaults, and refuses values that cannot be.
func settle(namespace *string, timeout *time.Duration) error {
	if *namespace == "" {
		*namespace = defaultNamespace
	}
	if *timeout == 0 {
		*timeout = defaultTimeout
	}
	switch {
	case strings.ContainsAny(*namespace, "{}"):
		return fmt.Errorf("%w: namespace %q has a brace", backend.ErrInvalid, *namespace)
	case len(*namespace) > maxNamespaceLen:
		return fmt.Errorf("%w: namespace of %d bytes is longer than %d", backend.ErrInvalid, len(*namespace), maxNamespaceLen)
	case *timeout < 0:
		return fmt.Errorf("%w: timeout %v is negative", backend.ErrInvalid, *timeout)
	}
	return nil
}
