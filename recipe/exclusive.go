package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/anylock/lock"
)

// exclusive returns what Locker.Acquire has returned, unless the lease is shared, by an option of the call or a default
// of the Locker: several leaders, or several holders of one permit, could have one.
func exclusive(lease *lock.Lease, err error) (*lock.Lease, error) {
	if err != nil || !lease.Shared() {
		return lease, err
	}
	err = fmt.Errorf("%w: lock.Shared does not suit this recipe, whose leases must be exclusive", lock.ErrInvalid)
	return nil, errors.Join(err, lease.Release(context.Background()))
}
