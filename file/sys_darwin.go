package file

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostClock returns the host's clock in nanoseconds since boot: the one that Go's timers and time.Now use, so that a
// holder's deadline and its record agree even when the machine sleeps. It stands still then, for everybody.
func hostClock() (monotonic func() int64, err error) {
	return func() int64 { return nanotime(unix.CLOCK_UPTIME_RAW) }, nil
}

// bootName identifies this boot of this machine.
func bootName() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// replaceFD closes the file of descriptor old, and makes old a descriptor of fd's file, in one step.
func replaceFD(fd, old int) error {
	syscall.ForkLock.RLock() // until old is closed on exec
	defer syscall.ForkLock.RUnlock()
	if err := retryEINTR(func() error { return unix.Dup2(fd, old) }); err != nil {
		return err
	}
	unix.CloseOnExec(old)
	return nil
}

// checkFS refuses a directory that other hosts may share.
func checkFS(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return pathError("statfs", dir, err)
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return fmt.Errorf("%w: %s is on a network file system; the file store needs a local one", errUnsupported, dir)
	}
	return nil
}
