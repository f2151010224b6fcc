package file

import "golang.org/x/sys/unix"

// describeFS returns the kind of a file system, where it matters, and the space that is free for users.
func describeFS(dir string) (kind string, bytes, nodes uint64, err error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return "", 0, 0, pathError("statfs", dir, err)
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		kind = inMemory
	case unix.OVERLAYFS_SUPER_MAGIC:
		kind = container
	}
	if nodes = st.Ffree; st.Files == 0 {
		nodes = leastNode
	}
	return kind, st.Bavail * uint64(st.Bsize), nodes, nil
}
