package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// A store is a folder of buckets.
type store struct {
	dir   string
	boot  bootID
	mode  uint32   // of new files
	known sync.Map // the paths of buckets that were seen in this boot
	spare *reserve // of descriptors, for renewals and releases
	turns [buckets]turn

	clock func() int64     // the host's monotonic clock; another one in tests
	wall  func() time.Time // the wall clock; another one in tests
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// tempPath returns a new name for a file that is not complete yet.
func (s *store) tempPath() string { return s.path(markFile + "." + randomName()) }

// errAbsent means that there is no such file.
var errAbsent = fs.ErrNotExist

// stopAt is called at the points where tests stop or kill the process. It is nil elsewhere.
var stopAt func(point string)

func point(name string) {
	if stopAt != nil {
		stopAt(name)
	}
}

// An inode identifies a file independently of its name.
type inode struct{ dev, ino uint64 }

// A fileInfo contains the file system's attributes of a file.
type fileInfo struct {
	inode         inode
	links         uint64 // number of names
	size          int64
	changed       int64 // time of the last write, by the kernel's wall clock
	regular, fifo bool
}

// An openFile is an open file. If tryLock has locked it, the file still had a name when it was locked.
type openFile struct {
	path string
	fd   int
	fileInfo
}

func (s *store) close(l openFile) {
	unlockFD(l.fd)
	s.spare.closeFile(l.fd)
}

// tryLock opens, locks and reads a file. If another process holds the lock, ok is false, and the caller must close the
// open file l. After an error nothing is open, and the error names the file. If create is set, as for a new lease,
// tryLock creates a missing file. Otherwise, it may use a spare descriptor.
func (s *store) tryLock(ctx context.Context, path string, create bool) (l openFile, img image, ok bool, err error) {
	for {
		l = openFile{path: path}
		if create {
			l.fd, err = openAt(path, openWrite, 0)
		} else {
			l.fd, err = s.spare.open(ctx, path)
		}
		if create && errors.Is(err, errAbsent) {
			if err = s.ensureFolder(); err == nil { // the folder may be missing, too
				err = s.createFile(path, "")
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return openFile{}, image{}, false, err
		}
		point("opened")
		ok, err = lockFD(l.fd)
		if err == nil {
			l.fileInfo, err = infoOf(l.fd)
		}
		switch {
		case err != nil:
		case l.links == 0: // the file has been replaced or removed
			s.close(l)
			continue
		case !l.regular:
			err = errForeign
		case ok:
			img, err = readImage(l.fd)
		}
		if err != nil {
			s.close(l)
			return openFile{}, image{}, false, fmt.Errorf("%s: %w", path, err)
		}
		return l, img, ok, nil
	}
}

// nextPause returns the time until the next attempt to lock a file. The lock is held for some 10 µs.
func nextPause(last time.Duration) time.Duration {
	const first, most = 20 * time.Microsecond, 2 * time.Millisecond
	if last == 0 {
		return first
	}
	return first + rand.N(min(2*last, most))
}

// createFile creates a file, unless it exists. The file gets its name only when it is complete and has its mode: the
// umask must not exclude other users, not even for a moment.
func (s *store) createFile(path, text string) error {
	temp := s.tempPath()
	fd, err := openAt(temp, openNew, s.mode)
	if err != nil {
		return err
	}
	defer unlink(temp)
	defer closeFD(fd)
	err = chmodFD(fd, s.mode)
	if err == nil && text != "" {
		if err = writeAt(fd, []byte(text), 0); err == nil {
			err = syncFD(fd)
		}
	}
	if err != nil {
		return err
	}
	if err = os.Link(temp, path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// update changes a key's record under its bucket's lock. change gets the record as it is now, and reports whether to
// write it; it may be called several times, each time with a new record. Without create, a missing file is an empty
// bucket: change gets an empty record, which is never written.
func (s *store) update(
	ctx context.Context, key string, create bool, change func(r *record, now int64) (write bool, err error),
) error {
	path, turn := s.path(bucketName(key)), s.turns[bucketOf(key)]
	if err := turn.acquire(ctx); err != nil {
		return err
	}
	defer turn.release()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		l, img, err := s.lock(ctx, path, create)
		if !create && errors.Is(err, errAbsent) {
			_, err = change(&record{}, s.clock())
			return err
		}
		if err != nil {
			return err
		}
		done, err := s.updateLocked(l, img, key, change)
		s.close(l)
		if done || err != nil {
			return err
		}
	}
}

// updateLocked changes a key's record in a locked bucket. It reports whether the update is done, with or without an
// error. If not, the lock was broken, and the update must be repeated.
func (s *store) updateLocked(
	l openFile, img image, key string, change func(r *record, now int64) (write bool, err error),
) (done bool, err error) {
	now := s.clock()
	b, err := s.decode(l.path, img.body, now)
	if err != nil {
		return true, err
	}
	r, err := b.record(key, now)
	if err != nil {
		return true, fmt.Errorf("%s: %w", l.path, err)
	}
	write, err := change(&r, now)
	point("changed")
	if err != nil || !write {
		return true, err
	}
	if err := writeImage(l.fd, img, l.size, b.encode(s.boot, now, key, &r)); err != nil {
		return true, err
	}
	point("written")
	broken, err := isBroken(l.fd)
	return !broken, err
}

// decode runs decodeBucket on the body of the file at path. It also detects that another machine, which has another
// boot, writes to the folder.
func (s *store) decode(path string, body []byte, now int64) (bucket, error) {
	b, old, err := decodeBucket(body, s.boot, now)
	if err != nil {
		return bucket{}, fmt.Errorf("%s: %w", path, err)
	}
	_, known := s.known.Load(path)
	switch {
	case old && known:
		return bucket{}, fmt.Errorf("%w: %s is written by another machine too; the file store serves one host",
			backend.ErrUnsupported, s.dir)
	case !old && !known:
		s.known.Store(path, nil)
	}
	return b, nil
}
