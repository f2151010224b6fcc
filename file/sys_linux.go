package file

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hostClock returns the host's clock in nanoseconds since boot. Go's timers and time.Now use the same clock, so a
// holder's deadline and its record agree even if the machine sleeps: the clock then stops for both.
func hostClock() (monotonic func() int64, err error) {
	offset, err := namespaceOffset()
	return func() int64 { return nanotime(unix.CLOCK_MONOTONIC) - offset }, err
}

// namespaceOffset returns the offset that this process's time namespace (some containers have one) adds to the host's
// monotonic clock.
func namespaceOffset() (int64, error) {
	// timens_offsets describes the namespace of the process's future children: see time_namespaces(7). After
	// unshare(CLONE_NEWTIME), the process itself is in another namespace.
	const initial = "time:[4026531834]" // PROC_TIME_INIT_INO of the kernel: the host's namespace, which adds nothing
	own, err := os.Readlink("/proc/self/ns/time")
	if err != nil || own == initial {
		return 0, nil // an error means a kernel without time namespaces
	}
	if children, err := os.Readlink("/proc/self/ns/time_for_children"); err != nil || children != own {
		return 0, fmt.Errorf("%w: the process has called unshare(CLONE_NEWTIME) in a time namespace, whose offset "+
			"is unknown now",
			errUnsupported)
	}
	b, err := os.ReadFile("/proc/self/timens_offsets")
	return parseOffsets(string(b)), err
}

// parseOffsets returns the offset of the monotonic clock. Each line of s contains a clock's name, seconds and
// nanoseconds.
func parseOffsets(s string) int64 {
	for line := range strings.Lines(s) {
		var sec, nsec int64
		if n, _ := fmt.Sscanf(line, "monotonic %d %d", &sec, &nsec); n == 2 {
			return sec*int64(time.Second) + nsec
		}
	}
	return 0
}

const bootFile = "/proc/sys/kernel/random/boot_id"

// bootName identifies this boot of this machine. own means that somebody has mounted a file over the kernel's boot id,
// as LXC and systemd-nspawn do in their containers: then the host and other containers have other names for this boot.
func bootName() (name string, own bool, err error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(bootFile, &st) }); err != nil {
		return "", false, pathError("statfs", bootFile, err)
	}
	b, err := os.ReadFile(bootFile)
	return strings.TrimSpace(string(b)), uint32(st.Type) != unix.PROC_SUPER_MAGIC, err
}

// networkFS are file systems, by the magic numbers of statfs(2), whose locks or contents may be shared with other
// hosts.
var networkFS = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	unix.V9FS_MAGIC:        "9P",
	0x01161970:             "GFS2",
	0x0bd00bd0:             "Lustre",
	0x47504653:             "GPFS",
	0xaad7aaea:             "PanFS",
	0x19830326:             "BeeGFS",
}

// replaceFD closes the file of descriptor old, and makes old refer to fd's file, in one step.
func replaceFD(fd, old int) error {
	return retryEINTR(func() error { return unix.Dup3(fd, old, unix.O_CLOEXEC) })
}

// kindOf returns the kind of a file system if the store treats it specially, and whether other hosts may share it.
func kindOf(st *unix.Statfs_t) (name string, network bool) {
	if uint32(st.Type) == unix.OVERLAYFS_SUPER_MAGIC {
		return overlayFS, false
	}
	name, network = networkFS[uint32(st.Type)]
	return name, network
}
