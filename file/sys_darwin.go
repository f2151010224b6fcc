package file

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hostClock returns the host's clock in nanoseconds since boot. Go's timers and time.Now use the same clock, so a
// holder's deadline and its record agree even if the machine sleeps: the clock then stops for both.
func hostClock() (monotonic func() int64, err error) {
	return func() int64 { return nanotime(unix.CLOCK_UPTIME_RAW) }, nil
}

// bootName identifies this boot of this machine.
func bootName() (name string, own bool, err error) {
	name, err = unix.Sysctl("kern.bootsessionuuid")
	return name, false, err
}

// replaceFD closes the file of descriptor old, and makes old refer to fd's file, in one step.
func replaceFD(fd, old int) error {
	syscall.ForkLock.RLock() // until close-on-exec is set on old
	defer syscall.ForkLock.RUnlock()
	if err := retryEINTR(func() error { return unix.Dup2(fd, old) }); err != nil {
		return err
	}
	unix.CloseOnExec(old)
	return nil
}

// kindOf returns the kind of a file system if the store treats it specially, and whether other hosts may share it.
func kindOf(st *unix.Statfs_t) (name string, network bool) {
	return "a network file system", st.Flags&unix.MNT_LOCAL == 0
}
