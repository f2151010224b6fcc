package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

// A server whose advisory functions say yes and lock nothing, or that has none, is refused with the name of what is missing. Here a schema
// before Postgres' own stands for it.
func TestPretenders(t *testing.T) {
	t.Parallel()
	const always = `CREATE FUNCTION %s(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';`
	noop := ""
	for _, name := range []string{"pg_try_advisory_lock", "pg_try_advisory_xact_lock", "pg_advisory_lock", "pg_advisory_unlock"} {
		noop += strings.Replace(always, "%s", name, 1)
	}
	for what, c := range map[string]struct{ sql, hint string }{
		"no-ops": {noop, "pg_locks"},
		"none": {`CREATE FUNCTION pg_try_advisory_xact_lock(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'advisory locks are not yet implemented'; END $$;
			CREATE FUNCTION pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'advisory locks are not yet implemented'; END $$`, "advisory locks are not yet implemented"},
		"CockroachDB": {`CREATE FUNCTION version() RETURNS text LANGUAGE sql AS $$SELECT 'CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)'$$`, "CockroachDB"},
	} {
		for mode, params := range bothModes {
			s := shared(t)
			if _, err := dialed(t, s.PostgresURL()).Exec(context.Background(), "CREATE SCHEMA fake; SET search_path = fake; "+c.sql); err != nil {
				t.Fatal(err)
			}
			b, err := openURL(context.Background(), s.PostgresURL()+params+"&search_path=fake,pg_catalog")
			if err == nil {
				_ = b.Close()
			}
			if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), c.hint) {
				t.Errorf("%s, %s mode: %v, want ErrUnsupported with %q", what, mode, err, c.hint)
			}
		}
	}
}
