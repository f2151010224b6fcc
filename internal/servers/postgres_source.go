package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var postgresKind = kind{
	name: "postgres",
	find: findProgram([]string{"postgres"}, // initdb and pg_basebackup are next to it
		"/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/bin"),
	taken: "Address already in use",
}

// A postgresSpec describes how to run one Postgres.
type postgresSpec struct {
	settings []string // name=value; they override the defaults
	primary  *Server  // the primary of a standby; nil for a primary
}

// hba accepts everybody, but the user "guarded" only with a password.
const hba = `host all guarded 0.0.0.0/0 scram-sha-256
local all all trust
host all all 0.0.0.0/0 trust
host replication all 0.0.0.0/0 trust
`

const (
	dataDir      = "data"
	hbaFile      = "hba.conf"
	postgresUser = "postgres"
)

func (spec postgresSpec) launch(g *group) launch {
	return launch{
		command: spec.command,
		ready:   postgresReady,
		empty:   func(s *Server) error { return spec.empty(g.binary, s) },
		process: func(t testing.TB, s *Server, args []string, files map[string]string) node {
			return spec.process(t, g.binary, s, args, files)
		},
	}
}

func (spec postgresSpec) command(at place) (args []string, files map[string]string) {
	settings := append([]string{
		"listen_addresses=" + bindHost, "port=" + at.port, "unix_socket_directories=.", "hba_file=" + hbaFile,
		"max_connections=300", "fsync=off", "shared_buffers=16MB", "max_wal_size=64MB", "wal_level=replica",
		"autovacuum=off", "logging_collector=off", "log_line_prefix=%m [%p] ",
	}, spec.settings...)
	args = []string{"-D", dataDir}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args, map[string]string{hbaFile: hba}
}

// process creates the data folder and a node that uses it.
func (spec postgresSpec) process(t testing.TB, binary string, s *Server, args []string, files map[string]string) node {
	t.Helper()
	user := unprivileged(postgresUser, "nobody")
	f := newFamily(t, s, binary, user, args, files)
	var err error
	if spec.primary != nil {
		err = runAs(user, s.Dir, sibling(binary, "pg_basebackup"), "-D", dataDir, "-R", "-c", "fast", "-d",
			spec.primary.postgresConn())
	} else {
		err = initdb(user, sibling(binary, "initdb"), s.Dir)
	}
	if err != nil {
		_ = f.remove()
		t.Fatalf("servers: %v", err)
	}
	return f
}

// empty replaces the data folder by a new one.
func (spec postgresSpec) empty(binary string, s *Server) error {
	if spec.primary != nil {
		return errors.New("a standby has its primary's data")
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, dataDir)); err != nil {
		return err
	}
	return initdb(unprivileged(postgresUser, "nobody"), sibling(binary, "initdb"), s.Dir)
}

// postgresConn returns the connection string for libpq's programs.
func (s *Server) postgresConn() string {
	host, port, _ := net.SplitHostPort(s.Addr)
	return fmt.Sprintf("host=%s port=%s user=%s", host, port, postgresUser)
}

// initdb creates a data folder in dir. Creating one takes a second, so the first is kept and then copied.
func initdb(user *identity, program, dir string) error {
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %v %v", program, info.Size(), info.ModTime(), user))
	kept := filepath.Join(os.TempDir(), "anylock-initdb-"+hex.EncodeToString(sum[:8]))
	if !ownedBy(user, kept) {
		making, err := os.MkdirTemp("", "anylock-initdb-making-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(making)
		if err := errors.Join(user.own(making), runAs(user, making, program,
			"-D", dataDir, "-N", "-U", postgresUser, "--auth=trust", "-E", "UTF8", "--locale=C",
			"--wal-segsize=1")); err != nil {
			return err
		}
		if err := os.Rename(making, kept); err != nil && !ownedBy(user, kept) { // another process may have been first
			return err
		}
	}
	return runAs(user, dir, "cp", "-R", "-p", filepath.Join(kept, dataDir), dataDir)
}

// runAs runs a program as user, and waits until it ends.
func runAs(user *identity, dir, program string, args ...string) error {
	runtime.LockOSThread() // Linux sends the parent-death signal when this thread ends
	defer runtime.UnlockOSThread()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	dieWithParent(cmd)
	user.apply(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func sibling(program, name string) string {
	if path, err := filepath.EvalSymlinks(program); err == nil {
		program = path
	}
	return filepath.Join(filepath.Dir(program), name)
}

// postgresReady compares the server's folder, because another server may have the same port.
func postgresReady(ctx context.Context, s *Server) error {
	dir, err := postgresQuery(ctx, s.Addr, "SHOW data_directory")
	if err != nil {
		return err
	}
	if want := filepath.Join(s.Dir, dataDir); dir != want && dir != dataDir {
		return fmt.Errorf("a server of %s answers on %s, not of %s", dir, s.Addr, want)
	}
	return nil
}
