package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// MariaDB starts a MariaDB of the test's own, which lets anybody in and has no database yet. It runs on this machine
// only. Arguments are more of its command line, and win over ours: a kill of the server loses the last second of its
// data unless they say otherwise.
func MariaDB(t testing.TB, arguments ...string) *Server {
	t.Helper()
	program, ok := find([]string{"mariadbd"}, "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
	if !ok {
		Missing(t, "no mariadbd on this machine: Debian's package is mariadb-server-core")
	}
	g := &group{kind: kind{name: "mariadb", taken: "Address already in use"}, binary: program, port: freePort}
	return g.start(t, launch{
		command: func(at place) ([]string, map[string]string) {
			args := []string{
				"--no-defaults", "--bind-address=" + bindHost, "--port=" + at.port,
				"--socket=socket",     // in the folder: a path from the root may be too long
				"--skip-grant-tables", // the folder is empty: there are no users
				"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
				"--pid-file=" + mariaPID,
			}
			if os.Geteuid() == 0 {
				args = append(args, "--user=root")
			}
			return append(args, arguments...), nil
		},
		ready: mariaReady,
		process: func(t testing.TB, s *Server, args []string, _ map[string]string) node {
			s.Dir = t.TempDir()
			return newProcess(program, s.Dir, append(args, "--datadir="+s.Dir)...)
		},
	})
}

const mariaPID = "server.pid"

// mariaReady reads the process id, which the server writes when it listens: somebody else's server on the same port
// does not.
func mariaReady(_ context.Context, s *Server) error {
	text, err := os.ReadFile(filepath.Join(s.Dir, mariaPID))
	if err != nil {
		return err
	}
	if pid := strings.TrimSpace(string(text)); pid != strconv.Itoa(s.node.pid()) {
		return fmt.Errorf("process %s, not %d, runs in %s", pid, s.node.pid(), s.Dir)
	}
	return nil
}
