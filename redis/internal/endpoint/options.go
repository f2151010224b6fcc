package endpoint

import (
	"fmt"
	"strings"
	"time"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/redis/internal/exchange"

	"github.com/anylock/lock/backend"
)

const (
	DefaultNamespace = "anylock"
	maxNamespaceLen  = 128
)

// NamespaceParam is the parameter of a URL for the namespace. lock_prefix does not replace it: access control lists
// know keys by how they begin.
var NamespaceParam = driver.Param{
	Name: driver.ParamPrefix + "namespace", Help: "begins the name of every key and channel; default " + DefaultNamespace,
}

// Settle gives the options that every store here has their defaults, and refuses values that cannot be.
func Settle(namespace *string, timeout *time.Duration) error {
	if *namespace == "" {
		*namespace = DefaultNamespace
	}
	if *timeout == 0 {
		*timeout = exchange.DefaultTimeout
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
