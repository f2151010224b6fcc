//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The functions below call the kernel directly: os.File would add a system call and a cleanup to each of them, and
// every operation of this store opens a file. With O_NONBLOCK, opening a foreign FIFO does not block.

const (
	openWrite  = unix.O_RDWR | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW
	openRead   = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW
	openNew    = openWrite | unix.O_CREAT | unix.O_EXCL
	openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC // follows a link to the folder
	openFIFO   = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW
	listenFIFO = unix.O_RDWR | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW
)

// openAt opens a file. The error is an *os.PathError.
func openAt(path string, flags int, mode uint32) (fd int, err error) {
	err = retryEINTR(func() error {
		fd, err = unix.Open(path, flags, mode)
		return err
	})
	return fd, pathError("open", path, err)
}

func closeFD(fd int) { _ = unix.Close(fd) }

// noDescriptor reports whether err of an open means that the process, or the system, has no free descriptor.
func noDescriptor(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// copyFD returns another descriptor of an open file.
func copyFD(fd int) (copied int, err error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

// lockFD locks an open file if its lock is free, and reports whether it has locked the file. The kernel releases the
// lock when the process dies.
func lockFD(fd int) (bool, error) {
	err := retryEINTR(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("flock", err)
}

// unlockFD releases the lock at once. Closing the file would not release it while a child that is being forked shares
// the open file.
func unlockFD(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }

// readAt reads up to len(p) bytes, fewer at the end of the file only.
func readAt(fd int, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(fd, p[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, os.NewSyscallError("pread", err)
		case m == 0:
			return n, nil
		default:
			n += m
		}
	}
	return n, nil
}

// writeAt writes p with one call. A short write, as on a full disk, is an error.
func writeAt(fd int, p []byte, off int64) error {
	var n int
	err := retryEINTR(func() (err error) {
		n, err = unix.Pwrite(fd, p, off)
		return err
	})
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return os.NewSyscallError("pwrite", err)
}

func infoOf(fd int) (fileInfo, error) {
	var st unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstat(fd, &st) })
	return infoFrom(&st), os.NewSyscallError("fstat", err)
}

// infoAt returns the attributes of the file that path names at present.
func infoAt(path string) (fileInfo, error) {
	var st unix.Stat_t
	err := retryEINTR(func() error { return unix.Lstat(path, &st) })
	return infoFrom(&st), pathError("lstat", path, err)
}

func infoFrom(st *unix.Stat_t) fileInfo {
	kind := st.Mode & unix.S_IFMT
	return fileInfo{
		inode: inode{uint64(st.Dev), uint64(st.Ino)}, links: uint64(st.Nlink), size: st.Size, changed: st.Mtim.Nano(),
		regular: kind == unix.S_IFREG, fifo: kind == unix.S_IFIFO,
	}
}

func chmodFD(fd int, mode uint32) error { return os.NewSyscallError("fchmod", unix.Fchmod(fd, mode)) }

func truncateFD(fd int, size int64) { _ = unix.Ftruncate(fd, size) }

func syncFD(fd int) error {
	return os.NewSyscallError("fsync", retryEINTR(func() error { return unix.Fsync(fd) }))
}

func makeFIFO(path string, mode uint32) error {
	return pathError("mkfifo", path, unix.Mkfifo(path, mode))
}

// openInbox opens a FIFO for writing. It refuses any other kind of file, because a file that has replaced the FIFO must
// not be written to.
func openInbox(path string) (fd int, err error) {
	if fd, err = openAt(path, openFIFO, 0); err != nil {
		return -1, err
	}
	info, err := infoOf(fd)
	if err == nil && !info.fifo {
		err = unix.ENXIO
	}
	if err != nil {
		closeFD(fd)
		return -1, pathError("open", path, err)
	}
	return fd, nil
}

// unlink removes a file's name. It does not remove directories.
func unlink(path string) { _ = unix.Unlink(path) }

// writeFIFO writes a message that is small enough to be atomic. If the FIFO is full, the message is dropped, and the
// waiter finds its lease when it polls.
func writeFIFO(fd int, p []byte) { _, _ = unix.Write(fd, p) }

// noReader reports whether err of opening a FIFO means that its reader is dead: nobody has the FIFO open for reading,
// or it is missing.
func noReader(err error) bool { return errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) }

func nanotime(clock int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic("file: no monotonic clock: " + err.Error()) // it was there when the store was opened
	}
	return ts.Nano()
}

func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

// examineFS returns the facts about a directory's file system that the rules need. It refuses a file system that other
// hosts may share.
func examineFS(dir string) (f folder, err error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return f, pathError("statfs", dir, err)
	}
	f = folder{dir: dir, bytes: st.Bavail * uint64(st.Bsize), nodes: st.Ffree}
	if st.Files == 0 { // the file system does not count inodes
		f.nodes = leastNodes
	}
	var network bool
	if f.kind, network = kindOf(&st); network {
		err = fmt.Errorf("%w: %q is on %s; the file store needs a local file system", errUnsupported, dir, f.kind)
	}
	return f, err
}
