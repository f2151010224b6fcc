package servers

import (
	"os"
	"testing"
)

// PostgresEnv names the environment variable with the URL of a Postgres that tests may use. The URL's role must be
// allowed to see its own sessions.
const PostgresEnv = "ANYLOCK_TEST_POSTGRES_URL"

// PostgresURL returns the URL of a Postgres for tests that do not break their server: $ANYLOCK_TEST_POSTGRES_URL, or
// that of a new server started by [Postgres].
func PostgresURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(PostgresEnv); url != "" {
		return url
	}
	return Postgres(t).PostgresURL()
}

// Postgres starts a primary for the test, with the superuser postgres, who needs no password. settings are additional
// lines of its configuration, as name=value, which override the defaults. By default fsync is off: the data survive a
// kill of the server, but not a crash of the machine. If a test creates the role "guarded", this role needs a password.
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	g := postgresKind.source(t)
	return g.start(t, postgresSpec{settings: settings}.launch(g))
}

// PostgresPair starts a primary and a streaming standby.
func PostgresPair(t testing.TB, settings ...string) (primary, standby *Server) {
	t.Helper()
	g := postgresKind.source(t)
	primary = g.start(t, postgresSpec{settings: settings}.launch(g))
	standby = g.start(t, postgresSpec{settings: settings, primary: primary}.launch(g))
	return primary, standby
}

// PostgresURL returns the URL of the database postgres for the superuser.
func (s *Server) PostgresURL() string {
	return "postgres://" + postgresUser + "@" + s.Addr + "/postgres?sslmode=disable"
}
