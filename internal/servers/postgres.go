package servers

import (
	"os"
	"testing"
)

// PostgresEnv names the environment variable with the URL of a Postgres that tests may use. It needs a role that may
// see the sessions of its own.
const PostgresEnv = "ANYLOCK_TEST_POSTGRES_URL"

// PostgresURL returns the URL of a Postgres for tests that do not break their server: $ANYLOCK_TEST_POSTGRES_URL, else
// that of a new server as by [Postgres].
func PostgresURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(PostgresEnv); url != "" {
		return url
	}
	return Postgres(t).PostgresURL()
}

// Postgres starts a primary of the test's own, with the superuser postgres, who needs no password. Settings are more of
// its configuration, as name=value, and win over ours: fsync is off, so that its data survive a kill of the server, but
// not one of the machine. The role "guarded", if a test makes it, needs a password.
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	g := postgresKind.source(t)
	return g.start(t, postgresSpec{settings: settings}.launch(g))
}

// PostgresPair starts a primary and a standby of it that streams.
func PostgresPair(t testing.TB, settings ...string) (primary, standby *Server) {
	t.Helper()
	g := postgresKind.source(t)
	primary = g.start(t, postgresSpec{settings: settings}.launch(g))
	standby = g.start(t, postgresSpec{settings: settings, primary: primary}.launch(g))
	return primary, standby
}

// PostgresURL is the URL of the server's database postgres for its superuser.
func (s *Server) PostgresURL() string {
	return "postgres://" + postgresUser + "@" + s.Addr + "/postgres?sslmode=disable"
}
