package file

import (
	"errors"
	"os"
	"strings"
	"time"
)

// breakAfter is how long a file must stay locked and unchanged before its lock is broken. A lock is held for some 10 µs: its
// process was stopped in the middle.
const breakAfter = 200 * time.Millisecond

// A watch finds out whether a file that cannot be locked makes no progress.
type watch struct {
	since time.Time
	seq   uint64 // 0 for a file without a whole image
}

// sees tells that the file has stayed as it is since the last look, without a whole image (torn) or with one.
func (w *watch) sees(fd int) (torn, stuck bool) {
	now := time.Now()
	first := w.since.IsZero()
	if !first && now.Sub(w.since) < breakAfter {
		return false, false
	}
	img, err := readImage(fd)
	if err != nil && !errors.Is(err, errTorn) {
		return false, false
	}
	same := !first && img.seq == w.seq
	w.since, w.seq = now, img.seq
	return same && img.seq == 0, same && img.seq != 0
}

// breakLock gets round the lock of a process that was stopped while it held it: a new file takes the place of the locked
// one. It is safe at any moment, even if that process is well:
//
//   - The new file is locked, and says where the old one went ("moved"), before it takes the old one's name in one step.
//     Only then is the old one's state copied to it. Who has written to the old file and found its name unchanged
//     afterwards has written before the copy; who finds it changed knows that the write may be void, and starts anew.
//   - Names are taken over (here) and removed (sweep) under the lock of one more file, so that a process which was stopped
//     before doing so cannot do it later. While such a process is stopped, no lock is broken.
//   - If this process dies in the middle, whoever next locks the new file finishes the move.
//
// It fails silently: whoever waits for the lock goes on waiting.
func (s *store) breakLock(l locked) {
	guard, ok := s.lockBreaks(false)
	if !ok {
		return
	}
	defer guard.close()
	if ok, err := l.current(); !ok || err != nil {
		return
	}
	temp, fd, err := s.temp()
	if err != nil {
		return
	}
	defer unlink(temp)
	next := locked{path: l.path, fd: fd}
	defer next.close()
	if ok, err := lockFD(fd, false); !ok || err != nil {
		return
	}
	moved := movedPrefix + randomName()
	if os.Link(l.path, s.path(moved)) != nil {
		return
	}
	point("linked")
	body := append([]byte{kindMoved, version}, moved...)
	err = writeImage(fd, image{}, body)
	point("switching")
	if err == nil {
		err = os.Rename(temp, l.path)
	}
	if err != nil {
		unlink(s.path(moved))
		return
	}
	point("moved")
	_, _ = s.finishMove(next, image{seq: 1, slot: 0, off: headSize, body: body})
}

// lockBreaks takes the lock that guards the names of files, if it is free.
func (s *store) lockBreaks(shared bool) (locked, bool) {
	path := s.path(breakFile)
	fd, err := openAt(path, openWrite, 0)
	if errors.Is(err, errAbsent) && s.create(path) == nil {
		fd, err = openAt(path, openWrite, 0)
	}
	if err != nil {
		return locked{}, false
	}
	l := locked{path: path, fd: fd}
	if ok, err := lockFD(fd, shared); !ok || err != nil {
		closeFD(fd)
		return locked{}, false
	}
	if l.id, err = inodeOf(fd); err == nil {
		if ok, err := l.current(); ok && err == nil {
			return l, true
		}
	}
	l.close()
	return locked{}, false
}

// finishMove copies the state of the file whose place l has taken, and returns it as it is in l now.
func (s *store) finishMove(l locked, img image) (image, error) {
	body, names, err := s.followMoves(img.body)
	if err != nil {
		return image{}, err
	}
	if err := writeImage(l.fd, img, body); err != nil {
		return image{}, err
	}
	point("copied")
	for _, name := range names {
		unlink(s.path(name))
	}
	return readImage(l.fd)
}

// followMoves returns the state at the end of a chain of moves, nil if there was none, and the names on the way.
func (s *store) followMoves(body []byte) (state []byte, names []string, err error) {
	for len(body) > 0 && body[0] == kindMoved {
		name := string(body[min(2, len(body)):])
		if !strings.HasPrefix(name, movedPrefix) || strings.ContainsRune(name, os.PathSeparator) || len(names) > 1000 {
			return nil, nil, errFormat
		}
		names = append(names, name)
		fd, err := openAt(s.path(name), openRead, 0)
		if err != nil {
			return nil, nil, err
		}
		img, err := readImage(fd)
		for try := 0; errors.Is(err, errTorn) && try < 10; try++ { // its old holder may be writing just now
			time.Sleep(time.Millisecond)
			img, err = readImage(fd)
		}
		closeFD(fd)
		switch {
		case errors.Is(err, errTorn):
			return nil, names[:len(names)-1], nil // a power failure has torn it, and ended all leases
		case err != nil:
			return nil, nil, err
		}
		body = img.body
	}
	return body, names, nil
}
