package endpoint

import (
	"cmp"
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

// NamespaceParam is the URL parameter for the namespace. lock_prefix cannot replace it: access control lists match the
// beginning of a Redis key, and lock_prefix comes later in the key.
var NamespaceParam = driver.Param{
	Name: driver.ParamPrefix + "namespace", Help: "begins the name of every key and channel; default " + DefaultNamespace,
}

// Complete sets the defaults of the options that the Redis stores share, and rejects invalid values.
func Complete(namespace *string, timeout *time.Duration) error {
	*namespace = cmp.Or(*namespace, DefaultNamespace)
	*timeout = cmp.Or(*timeout, exchange.DefaultTimeout)
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
