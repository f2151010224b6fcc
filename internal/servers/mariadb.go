package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// MariaDatabase is the name of the database in each MariaDB.
const MariaDatabase = "app"

// MariaDB starts a MariaDB for the test, with the program installed on this machine. The server accepts every user, and
// has the database MariaDatabase. arguments are additional options, which override the defaults. By default, a kill of
// the server loses the last second of its data.
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
				"--socket=socket",     // there are no users
				"--skip-grant-tables", // there are no users
				"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
				"--pid-file=" + mariaPID,
			}
			if os.Geteuid() == 0 {
				args = append(args, "--user=root")
			}
			return append(args, arguments...), nil
		},
		ready: mariaReady,
		empty: func(s *Server) error { return errors.Join(emptyFolder(s.Dir), bootstrap(program, s.Dir)) },
		process: func(t testing.TB, s *Server, args []string, _ map[string]string) node {
			s.Dir = newFolder(t)
			if err := bootstrap(program, s.Dir); err != nil {
				t.Fatalf("servers: %v", err)
			}
			return newProcess(program, s.Dir, append(args, "--datadir="+s.Dir)...)
		},
	})
}

// bootstrap creates the server's system tables. It runs a server that reads statements from its standard input and then
// shuts down. A server that starts in an empty folder creates the tables too, but writes their first pages late. A kill
// within the first second would leave a folder that no server can use.
func bootstrap(program, dir string) error {
	args := []string{"--no-defaults", "--bootstrap", "--datadir=" + dir, "--skip-grant-tables"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader("CREATE DATABASE " + MariaDatabase + ";\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s --bootstrap: %w: %s", program, err, tail(string(out)))
	}
	return nil
}

// emptyFolder removes everything in the server's folder except the log.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != logName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

const mariaPID = "server.pid"

// mariaReady reads the process id, which the server writes when it listens. Another server on the same port does not
// write it.
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
