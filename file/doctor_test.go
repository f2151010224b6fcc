//go:build linux

package file_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

func TestDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	storetest.Healthy(t, open(t, dir))
}

func TestDoctorWritableByAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if f := storetest.Finds(t, open(t, dir), "writable-by-all"); f.Severity != backend.Critical {
		t.Errorf("%+v", f)
	}
}

func TestDoctorFileSystems(t *testing.T) {
	t.Parallel()
	small := mounted(t, "tmpfs", "mode=700,size=1m")
	storetest.Finds(t, open(t, small), "no-space")
	roomy := mounted(t, "tmpfs", "mode=700,size=32m")
	storetest.Healthy(t, open(t, roomy))
	few := mounted(t, "tmpfs", "mode=700,size=32m,nr_inodes=500")
	storetest.Finds(t, open(t, few), "no-space")
	for _, layer := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(roomy, layer), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	layers := mounted(t, "overlay", "lowerdir="+roomy+"/lower,upperdir="+roomy+"/upper,workdir="+roomy+"/work")
	storetest.Finds(t, open(t, filepath.Join(layers, "locks")), "container-layer")
}

// mounted mounts a new file system, and returns its folder.
func mounted(t *testing.T, kind, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(kind, dir, kind, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Skipf("cannot mount %s here: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
