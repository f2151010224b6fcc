//go:build linux

package pgtable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// On a full disk, a new key fails with ErrUnavailable, and a live lease can still be renewed and released. When the
// disk has room again, new keys are granted.
func TestFullDisk(t *testing.T) {
	storetest.Long(t, "a file system of its own")
	s := servers.Postgres(t)
	ddl, err := sqltable.DDL(sqltable.Postgres, "full_disk")
	if err != nil {
		t.Fatal(err)
	}
	c := dialed(t, s.PostgresURL())
	disk := smallDisk(t, s)
	exec(t, c, `CREATE TABLESPACE small LOCATION '`+disk+`'`,
		strings.Replace(ddl, "PRIMARY KEY", "PRIMARY KEY USING INDEX TABLESPACE small", 1)+` TABLESPACE small`)
	b := opened(t, tableURL(s)+patient+"&lock_table=full_disk&lock_create=false")
	const ttl, most = 10 * time.Minute, 10_000
	held := acquire(t, b, req("held", ttl))
	fill := strings.Repeat("x", 900)
	var full error
	for i := 0; i < most && full == nil; i++ {
		_, full = b.Acquire(t.Context(), req(fmt.Sprint(fill, i), ttl))
	}
	if !errors.Is(full, backend.ErrUnavailable) || !strings.Contains(full.Error(), "53100") {
		t.Fatalf("a new key on a full disk: %v, want ErrUnavailable with SQLSTATE 53100", full)
	}
	for range 3 {
		if err := held.Renew(t.Context(), ttl); err != nil {
			t.Errorf("renew on a full disk: %v", err)
		}
	}
	release(t, held)
	release(t, acquire(t, b, req("held", ttl)))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, b, req(fill, ttl)))
}

// smallDisk mounts a file system of 1 MiB to which the server may write, and returns its folder.
func smallDisk(t *testing.T, s *servers.Server) string {
	t.Helper()
	owner, err := os.Stat(filepath.Join(s.Dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	stat := owner.Sys().(*syscall.Stat_t)
	dir := filepath.Join(s.Dir, "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("size=1m,mode=0700,uid=%d,gid=%d", stat.Uid, stat.Gid)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
