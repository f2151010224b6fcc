package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Of several hosts one may be full and another silent: the error is what the full one has said, and no time limit of
// ours.
func TestToldOfAFullHostBesideASilentOne(t *testing.T) {
	err := unavailable(errors.Join(&pgconn.PgError{Severity: "FATAL", Code: codeTooMany}, context.DeadlineExceeded))
	if !errors.Is(err, ErrExhausted) || !errors.Is(err, backend.ErrUnavailable) || kit.IsContextError(err) {
		t.Errorf("%v", err)
	}
}
