package servers

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	memory     = "/dev/shm"
	tmpfsMagic = 0x01021994 // as in statfs(2)
	leastRoom  = 2 << 30    // bytes; one etcd preallocates 128 MB
)

// memoryFolder returns the folder of this process in memory, or "" if there is no room.
func memoryFolder() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != tmpfsMagic || fs.Bavail*uint64(fs.Bsize) < leastRoom {
		return ""
	}
	own := ownMemoryFolder()
	if own == nil {
		return ""
	}
	return own.Name()
}

var ownMemoryFolder = sync.OnceValue(func() *os.File { return lockedFolder(memory) })

// lockedFolder creates a folder in parent and locks it until the process ends. It removes the folders of processes that
// have ended. It returns nil if it fails.
func lockedFolder(parent string) *os.File {
	const pattern = "anylock-tests-*"
	others, _ := filepath.Glob(filepath.Join(parent, pattern))
	for _, dir := range others {
		if f := lockFolder(dir); f != nil {
			_ = os.RemoveAll(dir)
			_ = f.Close()
		}
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil || os.Chmod(dir, 0o755) != nil { // servers may run as another user
		return nil
	}
	return lockFolder(dir)
}

// lockFolder opens and locks a folder. It returns nil if another process has locked or removed the folder.
func lockFolder(dir string) *os.File {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil
	}
	return f
}
