package file

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/anylock/lock/backend"
)

const dirMode = 0o700

// Open opens the locks kept in a directory, which it makes if it is missing, readable by its user alone. A relative path is
// taken from the current directory of now.
//
// It takes an empty directory, or one that it took before: there it leaves the file .anylock.
//
// Errors: ErrUnsupported where the system or the file system cannot do it, or another version of this store keeps its locks there;
// ErrInvalid if dir is not a directory, or somebody else's, for it holds other files; else what the system said.
func Open(ctx context.Context, dir string) (*Backend, error) {
	s, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	// It can be written, locked and read.
	if err := s.update(ctx, "", true, func(*record, int64) (bool, error) { return false, nil }); err != nil {
		return nil, orContext(ctx, err)
	}
	return newBackend(s), nil
}

func openStore(dir string) (*store, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: empty directory name", backend.ErrInvalid)
	}
	boot, err := bootName()
	if err != nil {
		return nil, unsupportedSystem(err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		if info, serr := os.Stat(dir); serr == nil && !info.IsDir() {
			return nil, fmt.Errorf("%w: %s is not a directory", backend.ErrInvalid, dir)
		}
		return nil, err
	}
	if err := checkFS(dir); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(boot))
	s := &store{dir: dir, boot: bootID(sum[:16]), clock: monotonic, wall: time.Now}
	s.mode, s.shared = fileMode(info.Mode())
	return s, s.takeFolder()
}

// fileMode is the mode of files in a directory: whoever may add files to it may use its locks.
func fileMode(dir fs.FileMode) (mode uint32, shared bool) {
	mode = 0o600
	if dir&0o020 != 0 {
		mode |= 0o060
	}
	if dir&0o002 != 0 {
		mode |= 0o006
	}
	return mode, mode != 0o600
}
