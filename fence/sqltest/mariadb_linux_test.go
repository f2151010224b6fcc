package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/internal/fencetest"
	"github.com/anylock/lock/internal/storetest"
)

// startMariaDB starts a server of the test's own, which ends with the test, and returns its database test.
func startMariaDB(t *testing.T) *sql.DB {
	t.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		server, err = exec.LookPath("/usr/sbin/mariadbd") // where Debian keeps it, which may not be in PATH
	}
	if err != nil {
		const lacks = "no MariaDB on this machine: Debian's package is mariadb-server-core"
		if os.Getenv("ANYLOCK_TEST_REQUIRE") != "" {
			t.Fatal(lacks)
		}
		t.Skip(lacks)
	}
	dir := t.TempDir()
	logFile := filepath.Join(dir, "log")
	log, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	port := freePort(t)
	args := []string{
		"--no-defaults", "--datadir=" + dir, "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port),
		"--socket=socket",     // in the folder: a path from the root may be too long
		"--skip-grant-tables", // the folder is empty: there are no users
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	cmd := exec.Command(server, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // Linux sends the parent-death signal when the thread ends that started the child
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			text, _ := os.ReadFile(logFile)
			t.Logf("MariaDB's log:\n%s", text)
		}
	})
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "tcp", fmt.Sprintf("127.0.0.1:%d", port)
	storetest.Until(t, time.Minute, "MariaDB answers", func() bool {
		select {
		case <-ended:
			t.Fatal("MariaDB has ended")
		default:
		}
		db, err := sql.Open("mysql", config.FormatDSN())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var data string // as a check that no other server has taken the port
		if err := db.QueryRowContext(t.Context(), `SELECT @@datadir`).Scan(&data); err != nil {
			return false
		}
		if filepath.Clean(data) != dir {
			t.Fatalf("port %d belongs to the server in %s", port, data)
		}
		_, err = db.ExecContext(t.Context(), `CREATE DATABASE test`)
		return err == nil
	})
	config.DBName = "test"
	db, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// freePort returns a port that nobody listens on, below those of outgoing connections.
func freePort(t *testing.T) int {
	t.Helper()
	for port := 21500 + os.Getpid()%1000; port < 32000; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func TestMariaDB(t *testing.T) {
	db := startMariaDB(t)
	d := fencetest.Database{
		DB: db, Dialect: fence.MySQL,
		Levels: []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		Again: func(err error) bool {
			const deadlock, recordChanged = 1213, 1020
			e := (*mysql.MySQLError)(nil)
			return errors.As(err, &e) && (e.Number == deadlock || e.Number == recordChanged)
		},
		Waits: func(ctx context.Context) (waits bool) {
			// innodb_trx would not do: it is not read anew while somebody polls it.
			err := db.QueryRowContext(ctx, `SELECT variable_value > 0 FROM information_schema.global_status
				WHERE variable_name = 'Innodb_row_lock_current_waits'`).Scan(&waits)
			return err == nil && waits
		},
	}
	fencetest.Run(t, d)

	// A plain SELECT reads the snapshot, and finds the token of before the later holder.
	t.Run("Naive", func(t *testing.T) {
		if stale, err := d.OldSnapshot(t, sql.LevelRepeatableRead, fencetest.Naive); !stale || err != nil {
			t.Errorf("a write with a token below the last: took effect %v, error %v", stale, err)
		}
	})
}
