package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

// A server without advisory locks, or whose lock functions return true and lock nothing, is refused, with an error that
// names the cause. A database with replaced built-in functions stands for such a server.
func TestPretenders(t *testing.T) {
	t.Parallel()
	const (
		replace = `CREATE OR REPLACE FUNCTION pg_catalog.`
		missing = `$$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'advisory locks are not yet implemented'; END $$`
	)
	for what, c := range map[string]struct{ sql, hint string }{
		"no-ops": {replace + `pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';` +
			replace + `pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';` +
			replace + `pg_advisory_lock(bigint) RETURNS void LANGUAGE sql AS 'SELECT';` +
			replace + `pg_advisory_unlock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'`, "pg_locks"},
		// The server calls a built-in function by its number, whatever the catalogue contains. So the original is renamed,
		// and the replacement gets another number.
		"none": {`ALTER FUNCTION pg_catalog.pg_try_advisory_xact_lock(bigint) RENAME TO renamed;` +
			replace + `pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE plpgsql AS ` + missing,
			"advisory locks are not yet implemented"},
	} {
		for mode, params := range variants {
			s := altered(t)
			if _, err := dialed(t, s.PostgresURL()).Exec(context.Background(), c.sql); err != nil {
				t.Fatal(err)
			}
			b, err := openURL(context.Background(), s.PostgresURL()+params)
			if err == nil {
				_ = b.Close()
			}
			if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), c.hint) {
				t.Errorf("%s, %s mode: %v, want ErrUnsupported with %q", what, mode, err, c.hint)
			}
		}
	}
}
