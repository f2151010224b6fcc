package lock

import (
	"errors"
	"fmt"

	"github.com/anylock/lock/backend/kit"
)

// errEndedEarly means that the store's lease ended before Acquire could return it.
var errEndedEarly = fmt.Errorf("%w before Acquire returned it", ErrLost)

// neverLost returns the error of an acquisition that failed with err. It never matches ErrLost. A store reports a grant
// that arrived too late as ErrLost, but the caller had no lease to lose. Such an error matches ErrUnavailable instead,
// unless a context has ended.
func neverLost(err error) error {
	switch {
	case !errors.Is(err, ErrLost):
		return err
	case kit.IsContextError(err):
		return notLost{err}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, notLost{err})
}

// A notLost error matches what err matches, except ErrLost.
type notLost struct{ err error }

func (e notLost) Error() string        { return e.err.Error() }
func (e notLost) Is(target error) bool { return target != ErrLost && errors.Is(e.err, target) }
func (e notLost) As(target any) bool   { return errors.As(e.err, target) }
