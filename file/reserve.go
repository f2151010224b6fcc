package file

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// spareFDs is how many renewals and releases can run at once while the process has no free descriptor.
const spareFDs = 3

// A reserve keeps descriptors open for renewals and releases, so that a process that has no descriptor left keeps its
// leases. It is safe for concurrent use.
type reserve struct {
	mu     sync.Mutex
	base   int   // the open folder
	spares []int // copies of base; fewer while some are in use, or other goroutines of the process have taken them
}

// newReserve opens the descriptors.
func newReserve(dir string) (*reserve, error) {
	base, err := openAt(dir, openFolder, 0)
	if err != nil {
		return nil, err
	}
	r := &reserve{base: base}
	for range spareFDs {
		fd, err := copyFD(base)
		if err != nil {
			r.close()
			return nil, pathError("open", dir, err)
		}
		r.spares = append(r.spares, fd)
	}
	return r, nil
}

// close closes the descriptors, except those in use.
func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fd := range append(r.spares, r.base) {
		closeFD(fd)
	}
	r.base, r.spares = -1, nil
}

// open opens a file to write. If the process has no free descriptor, open uses a spare one, or waits for one until
// ctx ends.
func (r *reserve) open(ctx context.Context, path string) (fd int, err error) {
	const pause = time.Millisecond // a request takes some 20 µs
	for {
		fd, err = r.try(func() (int, error) { return openAt(path, openWrite, 0) })
		if !noDescriptor(err) {
			return fd, err
		}
		if kit.Sleep(ctx, pause) != nil {
			return -1, fmt.Errorf("%w: %w", kit.ContextError(ctx, nil), err)
		}
	}
}

// openInbox opens a waiter's FIFO. If the process has no free descriptor, openInbox uses a spare one. Close the FIFO with
// closeFile.
func (r *reserve) openInbox(path string) (fd int, err error) {
	return r.try(func() (int, error) { return openInbox(path) })
}

// try calls open. If the process has no free descriptor, try calls open again, with a spare one.
func (r *reserve) try(open func() (fd int, err error)) (fd int, err error) {
	if fd, err = open(); noDescriptor(err) && r.free() {
		if fd, err = open(); err != nil {
			r.refill()
		}
	}
	return fd, err
}

// refill replaces a spare descriptor that was closed in vain.
func (r *reserve) refill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spares) == spareFDs {
		return
	}
	if fd, err := copyFD(r.base); err == nil { // there is no base after close
		r.spares = append(r.spares, fd)
	}
}

// free closes a spare descriptor, and reports whether there was one.
func (r *reserve) free() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.spares) - 1
	if last < 0 {
		return false
	}
	closeFD(r.spares[last])
	r.spares = r.spares[:last]
	return true
}

// closeFile closes a file. If a spare descriptor is missing, fd becomes a spare in the same step.
func (r *reserve) closeFile(fd int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spares) == spareFDs || replaceFD(r.base, fd) != nil { // there is no base after close
		closeFD(fd)
		return
	}
	r.spares = append(r.spares, fd)
}
