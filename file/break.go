package file

import (
	"context"
	"os"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// breakAfter is how long a file must stay locked and unchanged before its lock is broken. A lock is normally held for
// some 10 µs, so its process must have been stopped.
const breakAfter = 200 * time.Millisecond

// replacementSuffix ends the name of the file that replaces a bucket whose lock is broken.
const replacementSuffix = ".next"

// breakLock bypasses the lock of a process that was stopped while it held the lock: a new file replaces the locked one.
// This is safe at any moment, even if that process is still running:
//
//   - The locked file is marked before its state is copied, and a replaced file stays marked. If a process writes to
//     the file and then finds no mark, its write came before the copy, or the file was not replaced. If it finds the
//     mark, its write may have no effect, and it repeats its operation. (The kernel orders the write and the mark,
//     because both go to one file.)
//   - The new file is complete and locked before a rename gives it the old file's name in one step.
//   - Each bucket has one name for its new file, and the lock of that file guards the break. If the breaking process
//     dies, the next process that needs the bucket starts the break again, with the same file. While the breaking
//     process is stopped, the bucket stays blocked.
//
// breakLock fails silently: processes that wait for the lock continue to wait, and try again. If it fails after the
// mark, as on a full disk, it removes the mark: the bucket can be used again as soon as its lock is free.
func (s *store) breakLock(ctx context.Context, l openFile) {
	path := l.path + replacementSuffix
	next, img, ok, err := s.tryLock(ctx, path, true)
	if err != nil {
		return
	}
	defer s.close(next)
	if !ok || !isNameOf(path, next) || !isNameOf(l.path, l) {
		return
	}
	point("breaking")
	if writeAt(l.fd, []byte{1}, brokenAt) != nil {
		return
	}
	point("marked")
	old, err := readImage(l.fd) // errTorn if the old holder is writing at this moment
	if err == nil {
		err = writeImage(next.fd, img, next.size, old.body)
	}
	if err == nil {
		point("switching")
		err = os.Rename(path, l.path)
	}
	if err == nil {
		point("moved")
	} else if isNameOf(l.path, l) {
		_ = writeAt(l.fd, []byte{0}, brokenAt) // if this fails, the next break begins with a marked file
	}
}

// isNameOf reports whether path is a name of the open file l.
func isNameOf(path string, l openFile) bool {
	at, err := infoAt(path)
	return err == nil && at.inode == l.inode
}

// lock opens and locks a bucket's file. It polls until ctx ends, and never blocks in the kernel.
func (s *store) lock(ctx context.Context, path string, create bool) (openFile, image, error) {
	var since time.Time // when the locked file was first seen in its present state
	var seen openFile
	for pause := time.Duration(0); ; pause = nextPause(pause) {
		l, img, ok, err := s.tryLock(ctx, path, create)
		if err != nil || ok && !img.broken {
			return l, img, err
		}
		if l.inode != seen.inode || l.changed != seen.changed {
			since, seen = time.Now(), l
		}
		if ok || time.Since(since) >= breakAfter { // if ok, the breaking process has not finished, or has died
			s.breakLock(ctx, l)
		}
		s.close(l)
		if err := kit.Sleep(ctx, pause); err != nil {
			return openFile{}, image{}, err
		}
	}
}
