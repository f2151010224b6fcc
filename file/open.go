package file

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const dirMode = 0o700

// Open opens the locks in a directory. If the directory is missing, Open creates it, readable only by its user. A
// relative path is resolved at once, against the current directory.
//
// Open accepts an empty directory, or one that contains its mark, the file .anylock.
//
// Errors: ErrUnsupported if the system or the file system is not supported, or if another version of this store keeps
// its locks there; ErrInvalid if dir is not a directory or contains other files; otherwise the system's error.
func Open(ctx context.Context, dir string) (*Backend, error) {
	s, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	// Check that the files can be created, locked and read.
	if err := s.update(ctx, "", true, func(*record, int64) (bool, error) { return false, nil }); err != nil {
		s.spare.close()
		return nil, cmp.Or(kit.ContextError(ctx, err), err)
	}
	return newBackend(s), nil
}

func openStore(dir string) (*store, error) {
	if dir == "" || strings.ContainsRune(dir, 0) {
		return nil, fmt.Errorf("%w: %q is no name of a directory", backend.ErrInvalid, dir)
	}
	boot, own, err := bootName()
	if err != nil {
		return nil, fmt.Errorf("identify the boot of this host: %w", err)
	}
	clock, err := hostClock()
	if err != nil {
		return nil, fmt.Errorf("read the clock of this host: %w", err)
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
	if _, err := examineFS(dir); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, boot: newBootID(boot, own), clock: clock, wall: time.Now}
	s.mode = fileMode(info.Mode())
	for i := range s.turns {
		s.turns[i] = make(turn, 1)
	}
	if err := s.ensureFolder(); err != nil {
		return nil, err
	}
	s.spare, err = newReserve(dir)
	return s, err
}

// fileMode returns the mode of files in a directory: users who may add files to the directory may use its locks.
func fileMode(dir fs.FileMode) uint32 {
	mode := uint32(0o600)
	if dir&0o020 != 0 {
		mode |= 0o060
	}
	if dir&0o002 != 0 {
		mode |= 0o006
	}
	return mode
}
