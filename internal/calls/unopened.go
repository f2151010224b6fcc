package calls

import (
	"context"
	"io"

	"github.com/anylock/lock/backend/kit"
)

// CloseUnopened closes a backend that could not be opened. If ctx has ended, CloseUnopened does not wait until the
// backend has ended its requests.
func CloseUnopened(ctx context.Context, b io.Closer) {
	if kit.Ended(ctx) {
		go b.Close()
		return
	}
	_ = b.Close()
}
