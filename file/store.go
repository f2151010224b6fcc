package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	mrand "math/rand/v2"
	"path/filepath"
	"time"
)

// A store is a directory of records.
type store struct {
	dir    string
	boot   bootID
	mode   uint32 // of new files
	shared bool   // other users may write in the directory
	tokens tokens

	clock func() int64     // the host's monotonic clock; another one in tests
	wall  func() time.Time // the wall clock; another one in tests
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// errAbsent means that there is no such file.
var errAbsent = fs.ErrNotExist

// stopAt is called at the points where tests stop or kill the process. It is nil elsewhere.
var stopAt func(point string)

func point(name string) {
	if stopAt != nil {
		stopAt(name)
	}
}

// A locked file is open, exclusively locked, and was the one that its path names when it was locked.
type locked struct {
	path string
	fd   int
	id   inode
}

func (l locked) close() {
	unlockFD(l.fd)
	closeFD(l.fd)
}

// current reports whether the path still names this file. What was written before is seen by everybody only if it does:
// see breaker.
func (l locked) current() (bool, error) {
	id, err := inodeAt(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && id == l.id, err
}

// lock opens and locks a file, and creates it if told so: else a missing file is errAbsent. It waits until ctx ends, never
// in the kernel.
func (s *store) lock(ctx context.Context, name string, create bool) (locked, error) {
	path := s.path(name)
	for {
		if err := ctx.Err(); err != nil {
			return locked{}, err
		}
		fd, err := openAt(path, openWrite, 0)
		if errors.Is(err, fs.ErrNotExist) && create {
			if err = s.create(path); err != nil {
				return locked{}, err
			}
			continue
		}
		if err != nil {
			return locked{}, err
		}
		l, ok, err := s.lockOpen(ctx, path, fd)
		if ok {
			return l, nil
		}
		closeFD(fd)
		if err != nil {
			return locked{}, err
		}
	}
}

// lockOpen locks an open file. It reports false, without an error, if the path has come to name another file.
func (s *store) lockOpen(ctx context.Context, path string, fd int) (locked, bool, error) {
	id, err := inodeOf(fd)
	if err != nil {
		return locked{}, false, err
	}
	l := locked{path, fd, id}
	var stuck watch
	for pause := time.Duration(0); ; pause = nextPause(pause) {
		got, err := lockFD(fd, false)
		if err != nil {
			return locked{}, false, err
		}
		if got || pause > time.Millisecond {
			ok, err := l.current()
			if got && ok && err == nil {
				return l, true, nil
			}
			if got {
				unlockFD(fd)
			}
			if err != nil || !ok {
				return locked{}, false, err
			}
		}
		switch torn, still := stuck.sees(fd); {
		case torn:
			return locked{}, false, fmt.Errorf("%s: %w", path, errForeign)
		case still:
			s.breakLock(l)
		}
		if err := sleep(ctx, pause); err != nil {
			return locked{}, false, err
		}
	}
}

// nextPause is the time between two attempts to lock a file. The lock is held for some 10 µs.
func nextPause(last time.Duration) time.Duration {
	const first, most = 20 * time.Microsecond, 2 * time.Millisecond
	if last == 0 {
		return first
	}
	return first + mrand.N(min(2*last, most))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return ctx.Err()
	}
}

// create makes a file without a state, and the directory if that has gone. It is nil too if somebody else has made it. The file
// takes its name when it is whole: an empty one would not be known for ours, and the umask must not keep others out, not even for
// a moment.
func (s *store) create(path string) error {
	return whileGone(func() error {
		temp, fd, err := s.temp()
		if errors.Is(err, fs.ErrNotExist) {
			if err = s.makeFolder(); err == nil {
				temp, fd, err = s.temp()
			}
		}
		if err != nil {
			return err
		}
		err = writeImage(fd, image{}, nil)
		if err == nil && path == s.path(epochFile) {
			err = syncFD(fd)
		}
		closeFD(fd)
		point("made")
		if err == nil {
			err = renameNew(temp, path)
		}
		if err != nil {
			unlink(temp)
		}
		return ignoreExists(err)
	})
}

// whileGone calls f, again if it does not find what it has just made: a process that searches for what the dead have left
// takes new files for old ones if its wall clock is ahead, or has just been set.
func whileGone(f func() error) (err error) {
	const attempts = 3 // one search removes a file at most
	for range attempts {
		if err = f(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// temp makes an empty file of a name of its own.
func (s *store) temp() (path string, fd int, err error) { return s.makeNew(tempPrefix) }

// makeNew makes an empty file whose name begins with prefix.
func (s *store) makeNew(prefix string) (path string, fd int, err error) {
	path = s.path(prefix + randomName())
	if fd, err = openAt(path, openNew, s.mode); err != nil {
		return "", -1, err
	}
	if s.shared {
		if err = chmodFD(fd, s.mode); err != nil {
			closeFD(fd)
			unlink(path)
			return "", -1, err
		}
	}
	return path, fd, nil
}

func ignoreExists(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

const randomLen = 16

func randomName() string {
	var b [randomLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// update changes a key's record under its lock. change gets the record as it is now, settled, and reports whether to write
// it; it may be called several times, each time with a new record. create makes the record if there is none, else that is
// errAbsent.
func (s *store) update(ctx context.Context, name string, create bool, change func(r *record, now int64) (write bool, err error)) error {
	for {
		l, err := s.lock(ctx, name, create)
		if err != nil {
			return err
		}
		done, err := s.updateLocked(l, change)
		l.close()
		if done || err != nil {
			return err
		}
	}
}

// updateLocked reports whether it is done, with or without an error.
func (s *store) updateLocked(l locked, change func(r *record, now int64) (write bool, err error)) (done bool, err error) {
	img, r, err := s.readRecord(l)
	if err != nil {
		return true, fmt.Errorf("record %s: %w", l.path, err)
	}
	now := s.clock()
	settled := r.settle(s.boot, now)
	write, err := change(&r, now)
	point("changed")
	if err != nil || !write && !settled {
		return true, err
	}
	if err := writeImage(l.fd, img, r.encode()); err != nil {
		return true, err
	}
	point("written")
	return l.current()
}

// readRecord reads the record of a locked file.
func (s *store) readRecord(l locked) (image, record, error) {
	img, err := s.readLocked(l)
	if err != nil || len(img.body) == 0 {
		return img, record{}, err
	}
	r, err := decodeRecord(img.body)
	return img, r, err
}

// readLocked reads the state of a locked file.
func (s *store) readLocked(l locked) (image, error) {
	img, err := readImage(l.fd)
	if errors.Is(err, errTorn) {
		return image{}, errForeign // a process that dies while it writes leaves the state before
	}
	if err == nil && len(img.body) > 0 && img.body[0] == kindMoved {
		return s.finishMove(l, img)
	}
	return img, err
}

// peek reads a key's record without its lock. ok is false if that needs the lock.
func (s *store) peek(name string) (r record, now int64, ok bool, err error) {
	fd, err := openAt(s.path(name), openRead, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return record{boot: s.boot}, s.clock(), true, nil
	}
	if err != nil {
		return record{}, 0, false, err
	}
	defer closeFD(fd)
	return s.peekFD(fd)
}

func (s *store) peekFD(fd int) (r record, now int64, ok bool, err error) {
	img, err := readImage(fd)
	if errors.Is(err, errTorn) {
		return record{}, 0, false, nil // overtaken by two writes, or not ours
	}
	if err != nil {
		return record{}, 0, false, err
	}
	if len(img.body) == 0 || img.body[0] == kindMoved {
		return record{}, 0, false, nil
	}
	if r, err = decodeRecord(img.body); err != nil {
		return record{}, 0, false, err
	}
	now = s.clock()
	r.settle(s.boot, now)
	return r, now, true, nil
}
