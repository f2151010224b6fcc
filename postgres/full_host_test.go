package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// If one host is full and another one is silent, the error is that of the full host, and does not match a context
// error.
func TestToldOfAFullHostBesideASilentOne(t *testing.T) {
	err := unavailable(errors.Join(&pgconn.PgError{Severity: "FATAL", Code: codeTooMany}, context.DeadlineExceeded))
	if !errors.Is(err, ErrExhausted) || !errors.Is(err, backend.ErrUnavailable) || kit.IsContextError(err) {
		t.Errorf("%v", err)
	}
}
