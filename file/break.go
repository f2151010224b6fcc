package file

import (
	"context"
	"os"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// breakAfter is how long a file must stay locked and unchanged before its lock is broken. A lock is held for some 10
// µs: its process was stopped in the middle.
const breakAfter = 200 * time.Millisecond

// spareSuffix ends the name of the file that is to take the place of a bucket whose lock is broken.
const spareSuffix = ".next"

// breakLock bypasses the lock of a process that was stopped while it held the lock: a new file replaces the locked
// one. It is safe at any moment, even if that process is well:
//
//   - The locked file is marked, for good, before its state is copied. Who has written to it and finds no mark
//     afterwards has written before the copy; who finds the mark knows that the write may be void, and starts anew.
//     (The kernel orders the two: both write to one file.)
//   - The new file is ready, and locked, before it takes the old one's name in one step.
//   - The new file has a name that its bucket alone uses, and its lock guards the break. If its process dies, whoever
//     next wants the bucket begins again, with the same file. While its process is stopped, the bucket stays as it is.
//
// It fails silently: processes that wait for the lock continue to wait, and try again.
func (s *store) breakLock(ctx context.Context, l locked) {
	path := l.path + spareSuffix
	next, img, ok, err := s.tryLock(ctx, path, true)
	if err != nil {
		return
	}
	defer s.close(next)
	if !ok || !names(path, next) || !names(l.path, l) {
		return
	}
	point("breaking")
	if writeAt(l.fd, []byte{1}, brokenAt) != nil {
		return
	}
	point("marked")
	old, err := readImage(l.fd) // it is torn if the old holder writes just now
	if err != nil || writeImage(next.fd, img, next.size, old.body) != nil {
		return
	}
	point("switching")
	if os.Rename(path, l.path) == nil {
		point("moved")
	}
}

// names reports whether a path names an open file.
func names(path string, l locked) bool {
	at, err := infoAt(path)
	return err == nil && at.inode == l.inode
}

// lock opens and locks a bucket's file. It waits until ctx ends, never in the kernel.
func (s *store) lock(ctx context.Context, path string, create bool) (locked, image, error) {
	var since time.Time // when the file that cannot be locked was seen first, as it is now
	var seen locked
	for pause := time.Duration(0); ; pause = nextPause(pause) {
		l, img, ok, err := s.tryLock(ctx, path, create)
		if err != nil || ok && !img.broken {
			return l, img, err
		}
		if l.inode != seen.inode || l.changed != seen.changed {
			since, seen = time.Now(), l
		}
		if ok || time.Since(since) >= breakAfter { // if ok, who broke it has not finished, or died
			s.breakLock(ctx, l)
		}
		s.close(l)
		if err := kit.Sleep(ctx, pause); err != nil {
			return locked{}, image{}, err
		}
	}
}
