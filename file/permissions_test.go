//go:build linux

package file_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/storetest"
)

// Users of one group share the locks of a directory that is created as docs/stores/file.md describes. The test is not
// parallel, because it changes the user of the whole process.
func TestPermissionsOfThePage(t *testing.T) {
	const shop = 65500 // id of the group, and of the first of two users
	root := os.Geteuid() == 0
	group := os.Getegid()
	if root {
		group = shop
	}
	dir := filepath.Join(t.TempDir(), "locks")
	for _, line := range storetest.Permissions(t, "file") {
		line = strings.Replace(line, "-g locks", "-g "+strconv.Itoa(group), 1)
		line = strings.Replace(line, "/var/lib/myapp/locks", dir, 1)
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o770 ||
		int(info.Sys().(*syscall.Stat_t).Gid) != group {
		t.Fatalf("the page makes another directory: %v, %v", info, err)
	}
	if !root {
		storetest.UseAll(t, open(t, dir), "k")
		return
	}
	for _, up := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} { // temporary folders of this test
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own := os.Getegid()
	become := func(uid, gid int) {
		t.Helper()
		if err := syscall.Setresuid(-1, 0, -1); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setresgid(-1, gid, -1); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setresuid(-1, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	defer become(0, own)
	for _, uid := range []int{shop, shop + 1, shop} {
		become(uid, shop)
		b := open(t, dir)
		storetest.UseAll(t, b, "k")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	become(shop+2, shop+2)
	if b, err := file.Open(t.Context(), dir); err == nil {
		_ = b.Close()
		t.Error("a stranger has opened it")
	}
}
