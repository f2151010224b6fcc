package servers

import (
	"context"
	"net"
	"strings"
	"testing"
)

// PgBouncer starts a PgBouncer in front of pg, with the program installed on this machine. mode is the pool mode:
// session, transaction or statement. settings are additional lines of its configuration, as name=value.
func PgBouncer(t testing.TB, pg *Server, mode string, settings ...string) *Server {
	t.Helper()
	program, ok := find([]string{"pgbouncer"}, "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
	if !ok {
		Missing(t, "no pgbouncer on this machine")
	}
	g := &group{kind: kind{name: "pgbouncer", taken: "cannot listen"}, binary: program, port: freePort}
	return g.start(t, launch{
		command: func(at place) ([]string, map[string]string) {
			return []string{pgbouncerFile}, map[string]string{pgbouncerFile: pgbouncerConf(pg, at, mode, settings)}
		},
		ready: postgresProxyReady,
		process: func(t testing.TB, s *Server, args []string, files map[string]string) node {
			return newFamily(t, s, program, unprivileged(postgresUser, "nobody"), args, files)
		},
	})
}

const pgbouncerFile = "pgbouncer.ini"

func pgbouncerConf(pg *Server, at place, mode string, settings []string) string {
	host, port, _ := net.SplitHostPort(pg.Addr)
	return "[databases]\n* = host=" + host + " port=" + port + " user=" + postgresUser + `
[pgbouncer]
listen_addr = ` + bindHost + `
listen_port = ` + at.port + `
unix_socket_dir =
auth_type = any
pool_mode = ` + mode + `
max_client_conn = 500
default_pool_size = 100
server_tls_sslmode = disable
` + strings.Join(settings, "\n") + "\n"
}

// postgresProxyReady sends a query through a proxy.
func postgresProxyReady(ctx context.Context, s *Server) error {
	_, err := postgresQuery(ctx, s.Addr, "SELECT 1")
	return err
}
