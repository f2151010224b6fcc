package file

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// breakAfter is how long a file must stay locked and unchanged before its lock is broken. A lock is held for some 10
// µs: its process was stopped in the middle.
const breakAfter = 200 * time.Millisecond

// spareSuffix ends the name of the file that is to take the place of a bucket whose lock is broken.
const spareSuffix = ".next"

// A stall finds out whether a file that cannot be locked makes no progress.
type stall struct {
	since time.Time
	seq   uint64
}

// stuck reports whether the file is unchanged since the last inspection.
func (w *stall) stuck(fd int) (bool, error) {
	now := time.Now()
	first := w.since.IsZero()
	if !first && now.Sub(w.since) < breakAfter {
		return false, nil
	}
	img, err := readImage(fd)
	if errors.Is(err, errTorn) {
		return false, nil // writes have overtaken this look
	}
	same := !first && img.seq == w.seq
	w.since, w.seq = now, img.seq
	return same && err == nil, err
}

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
// It fails silently: processes that wait for the lock continue to wait.
func (s *store) breakLock(ctx context.Context, l locked) {
	path := l.path + spareSuffix
	next, img, ok, err := s.tryLock(ctx, path, access{create: true})
	if !ok || err != nil {
		return
	}
	defer next.close()
	if !names(path, next) || !names(l.path, l) {
		return
	}
	point("breaking")
	if writeAt(l.fd, []byte{1}, brokenAt) != nil {
		return
	}
	point("marked")
	old, err := readImage(l.fd)
	for try := 0; errors.Is(err, errTorn) && try < 10; try++ { // its old holder may be writing just now
		time.Sleep(time.Millisecond)
		old, err = readImage(l.fd)
	}
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
func (s *store) lock(ctx context.Context, path string, how access) (locked, image, error) {
	var stuck stall
	for pause := time.Duration(0); ; pause = nextPause(pause) {
		l, img, ok, err := s.tryLock(ctx, path, how)
		switch {
		case err != nil:
			return locked{}, image{}, err
		case ok && !img.broken:
			return l, img, nil
		case ok: // who broke it has not finished, or died
			s.breakLock(ctx, l)
			l.close()
		default:
			still, err := stuck.stuck(l.fd)
			if still {
				s.breakLock(ctx, l)
			}
			l.closeUnlocked()
			if err != nil {
				return locked{}, image{}, err
			}
		}
		if err := kit.Sleep(ctx, pause); err != nil {
			return locked{}, image{}, err
		}
	}
}
