package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/pgurl"
)

// connConfig returns the configuration of the next connection: the application's configuration with the changes that
// the store needs.
func (b *Backend) connConfig(ctx context.Context) (*pgconn.Config, error) {
	config := b.config.Copy()
	if before := b.options.BeforeConnect; before != nil {
		if err := before(ctx, config); err != nil {
			return nil, fmt.Errorf("%w: BeforeConnect: %w", backend.ErrUnavailable, err)
		}
	}
	c := &config.Config
	each := b.options.loginLimit()
	if n := pgurl.Hosts(c); n > 1 {
		each = connectLimit / time.Duration(n+1)
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, each) // of each address: a silent one leaves time for the others
	c.DialFunc = detectsSilence(c.DialFunc)
	// The application's own handler may wait for a reply: a read from an idle connection would then never end.
	c.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	onError := c.OnPgError
	c.OnPgError = func(c *pgconn.PgConn, e *pgconn.PgError) bool {
		keep := onError == nil || onError(c, e)
		return keep && !endedByServer(e) // otherwise the error that closes the connection would hide the server's message
	}
	if c.RuntimeParams == nil {
		c.RuntimeParams = make(map[string]string)
	}
	if _, ok := c.RuntimeParams["application_name"]; !ok {
		c.RuntimeParams["application_name"] = "anylock"
	}
	for _, name := range timeouts {
		delete(c.RuntimeParams, name)
	}
	return c, nil
}

// timeouts are the settings that setup.sql overrides. The application's values are removed, because they could end the
// session before setup.sql runs.
var timeouts = []string{"statement_timeout", "lock_timeout", "idle_session_timeout"}
