package gocronlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/anylock/lock"
)

// exclusive returns the result of an acquisition, but refuses a shared lease: it releases the lease and returns an
// error. An option or a default of the Locker can make a lease shared. Then there could be several leaders, or several
// schedulers that run one fire.
func exclusive(lease *lock.Lease, err error) (*lock.Lease, error) {
	if err != nil || !lease.Shared() {
		return lease, err
	}
	err = fmt.Errorf("%w: lock.Shared does not suit gocron, whose leases must be exclusive", lock.ErrInvalid)
	return nil, errors.Join(err, lease.Release(context.Background()))
}
