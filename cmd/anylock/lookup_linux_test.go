package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder in $PATH that may not be searched does not make lookup report that it found the program. After su(1), the
// folders of root are such folders.
func TestLookupPastClosedFolder(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 { // root may search every folder
			const nobody, same = 65534, ^uintptr(0)
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same); errno != 0 { // changes this thread only
				t.Error(errno)
				return
			}
		}
		if _, err := os.Stat(filepath.Join(closed, "x")); !errors.Is(err, os.ErrPermission) {
			t.Errorf("a look into a closed folder: %v", err)
		}
		if _, err := lookup("nosuchcommand", closed+":/usr/bin"); !errors.Is(err, errNotInPath) {
			t.Errorf("%v", err)
		}
	}()
	<-done
}
