package specimens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Failed is the error of a request of a twin, as the caller that passed ctx may see it. An error that means that there
// was no reply becomes backend.ErrUnavailable: the end of another context than ctx, an error of the network, and those
// of unanswered.
func Failed(ctx context.Context, err error, unanswered ...error) error {
	switch {
	case err == nil, errors.Is(err, backend.ErrUnavailable):
		return err
	case kit.Ended(ctx):
		if kit.IsContextError(err) {
			return err
		}
		return kit.ContextError(ctx, err)
	}
	var network net.Error
	none := errors.As(err, &network)
	for _, e := range append(unanswered, io.EOF, net.ErrClosed) {
		none = none || errors.Is(err, e)
	}
	if none {
		return fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	}
	return kit.NotOurs(ctx, err)
}
