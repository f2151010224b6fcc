package file

import (
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// sweepAfter is how long a file of a free key is left, for whoever takes the key again.
	sweepAfter = time.Second
	// sweepBatch is how many files are removed under one lock.
	sweepBatch = 64
	// sweepTime bounds the search for what dead processes have left when a store is opened, and the last sweep.
	sweepTime = 500 * time.Millisecond
	// oldAge is when a store's own file that nobody uses belongs to a dead process.
	oldAge = time.Minute
)

// A sweeper removes the files of free keys, so that they do not add up: in one goroutine, for a moment, while there is
// something to do.
type sweeper struct {
	store *store

	mu     sync.Mutex
	idle   map[string]idle // by the names of files
	timer  *time.Timer
	next   time.Time // when it fires
	closed bool
	end    chan struct{} // closed by close
	work   sync.WaitGroup
}

// An idle file may be removed soon.
type idle struct {
	due  time.Time // when to look at it
	lost string    // whose lease has still to run out, which its holder knows for lost; empty if the key was free
}

func newSweeper(s *store) *sweeper {
	w := &sweeper{store: s, idle: make(map[string]idle), end: make(chan struct{})}
	w.work.Go(w.search)
	return w
}

// later removes a file if its key stays free.
func (w *sweeper) later(name string) { w.add(name, idle{due: time.Now().Add(sweepAfter)}) }

// afterLoss removes a file once the lease of owner has run out, which is lost already, if nobody takes the key.
func (w *sweeper) afterLoss(name, owner string) {
	w.add(name, idle{due: time.Now().Add(sweepAfter), lost: owner})
}

func (w *sweeper) add(name string, i idle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.idle[name] = i
	if w.timer == nil || i.due.Before(w.next) && w.timer.Stop() {
		w.armLocked()
	}
}

// armLocked sets the timer for the file that is due first.
func (w *sweeper) armLocked() {
	if len(w.idle) == 0 || w.closed {
		w.timer = nil
		return
	}
	var first time.Time
	for _, i := range w.idle {
		if first.IsZero() || i.due.Before(first) {
			first = i.due
		}
	}
	wait := max(time.Until(first), sweepAfter)
	w.next = time.Now().Add(wait)
	w.timer = time.AfterFunc(wait, w.tick)
}

func (w *sweeper) tick() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.work.Add(1)
	defer w.work.Done()
	var names []string
	now := time.Now()
	for name, i := range w.idle {
		switch {
		case now.Before(i.due):
			continue
		case i.lost != "":
			if left := w.store.leftOf(name, i.lost); left > 0 {
				w.idle[name] = idle{due: now.Add(left + sweepAfter), lost: i.lost}
				continue
			}
		}
		names = append(names, name)
		delete(w.idle, name)
	}
	w.mu.Unlock()
	w.removeAll(names, time.Time{})
	w.mu.Lock()
	w.armLocked()
	w.mu.Unlock()
}

// close removes what is left to remove, for a bounded time.
func (w *sweeper) close() {
	w.mu.Lock()
	w.closed = true
	close(w.end)
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.work.Wait()
	names := make([]string, 0, len(w.idle))
	for name := range w.idle {
		names = append(names, name)
	}
	w.removeAll(names, time.Now().Add(sweepTime))
}

// removeAll removes files whose keys are free, until a time if that is not zero.
func (w *sweeper) removeAll(names []string, until time.Time) {
	for len(names) > 0 && (until.IsZero() || time.Now().Before(until)) {
		n := min(len(names), sweepBatch)
		w.removeBatch(names[:n])
		names = names[n:]
	}
}

func (w *sweeper) removeBatch(names []string) {
	guard, ok := w.store.lockBreaks(true)
	if !ok {
		return // a lock is being broken; what is left now is found when a store is opened
	}
	defer guard.close()
	for _, name := range names {
		if strings.HasPrefix(name, movedPrefix) {
			w.store.removeMoved(name)
		} else {
			w.store.removeFree(name)
		}
	}
}

// removeMoved removes what a process has left that died while it broke a lock, before the file was moved: it still has its
// own name, besides those that it was given to be moved, of which there may be several. Without that, the file that took its
// place may need it. Call it with the shared lock of names.
func (s *store) removeMoved(name string) {
	path := s.path(name)
	id, err := inodeAt(path)
	if err != nil || !s.ours(name) {
		return
	}
	n, err := linksAt(path)
	if err != nil || n <= 1 {
		return
	}
	all, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), movedPrefix) {
			continue
		}
		if other, err := inodeAt(s.path(e.Name())); err == nil && other == id {
			n--
		}
	}
	if n > 0 {
		unlink(path)
	}
}

// leftOf is the rest of the lease of owner, 0 if it has none.
func (s *store) leftOf(name, owner string) time.Duration {
	r, now, ok, err := s.peek(name)
	if !ok || err != nil || r.owner != owner {
		return 0
	}
	return time.Duration(r.expires - now)
}

// removeFree removes the file of a key that nobody holds or waits for. Call it with the shared lock of names.
func (s *store) removeFree(name string) {
	path := s.path(name)
	fd, err := openAt(path, openWrite, 0)
	if err != nil {
		return
	}
	l := locked{path: path, fd: fd}
	defer l.close()
	if ok, err := lockFD(fd, false); !ok || err != nil {
		return
	}
	if l.id, err = inodeOf(fd); err != nil {
		return
	}
	if ok, err := l.current(); !ok || err != nil {
		return
	}
	_, r, err := s.readRecord(l)
	if err != nil {
		return
	}
	now := s.clock()
	r.settle(s.boot, now)
	if r.owner == "" && !s.anyAlive(r.queue) && s.behind(r.token, now) {
		point("removing")
		unlink(path)
	}
}

// anyAlive reports whether the process of any waiter lives.
func (s *store) anyAlive(queue []queued) bool {
	b := inbox{store: s}
	for _, q := range queue {
		fd, err := openInbox(b.path(q.inbox))
		if err == nil {
			closeFD(fd)
		}
		if !noReader(err) {
			return true
		}
	}
	return false
}

// search finds what dead processes have left, for a bounded time.
func (w *sweeper) search() {
	until := time.Now().Add(sweepTime)
	dir, err := os.Open(w.store.dir)
	if err != nil {
		return
	}
	defer dir.Close()
	for time.Now().Before(until) {
		names, err := dir.Readdirnames(sweepBatch)
		if err != nil {
			return
		}
		var free []string
		for _, name := range names {
			select {
			case <-w.end:
				return
			default:
			}
			switch {
			case strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, "."):
				if r, _, ok, err := w.store.peek(name); err == nil && (!ok || r.owner == "") {
					free = append(free, name)
				}
			case strings.HasPrefix(name, movedPrefix):
				free = append(free, name)
			case strings.HasPrefix(name, inboxPrefix):
				w.store.removeInbox(name)
			case strings.HasPrefix(name, tempPrefix):
				w.store.removeOld(name)
			}
		}
		w.removeAll(free, until)
	}
}

// removeInbox removes the FIFO of a dead process.
func (s *store) removeInbox(name string) {
	path := s.path(name)
	info, err := os.Lstat(path)
	if err != nil || !isOld(info) || info.Mode().Type() != fs.ModeNamedPipe || !hasRandomName(name, inboxPrefix) {
		return // it may be about to be opened, or is not ours
	}
	fd, err := openInbox(path)
	switch {
	case err == nil:
		closeFD(fd)
	case noReader(err):
		unlink(path)
	}
}

// removeOld removes a file that was being made when its process died. One without an image stays: nothing tells whose it is.
func (s *store) removeOld(name string) {
	path := s.path(name)
	if info, err := os.Lstat(path); err == nil && isOld(info) && s.ours(name) {
		unlink(path)
	}
}

func isOld(info fs.FileInfo) bool { return time.Since(info.ModTime()) > oldAge }
