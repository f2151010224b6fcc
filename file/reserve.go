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
	spares chan int // copies of base; has room for spareFDs

	mu      sync.Mutex
	base    int // the open folder
	missing int // spare descriptors that are in use, or that another goroutine of the process has taken
	closed  bool
}

// newReserve opens the descriptors.
func newReserve(dir string) (*reserve, error) {
	base, err := openAt(dir, openRead, 0)
	if err != nil {
		return nil, err
	}
	r := &reserve{base: base, spares: make(chan int, spareFDs)}
	for range spareFDs {
		fd, err := copyFD(base)
		if err != nil {
			r.close()
			return nil, pathError("open", dir, err)
		}
		r.spares <- fd
	}
	return r, nil
}

// close closes the descriptors, except those in use.
func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	closeFD(r.base)
	for {
		select {
		case fd := <-r.spares:
			closeFD(fd)
		default:
			return
		}
	}
}

// open opens a file to write. If the process has no free descriptor, open uses a spare one, or waits for one until
// ctx ends. Close the file with closeFile.
func (r *reserve) open(ctx context.Context, path string) (fd int, err error) {
	const pause = 5 * time.Millisecond // until the process may have a free descriptor again
	for {
		if fd, err = openAt(path, openWrite, 0); !noDescriptor(err) {
			return fd, err
		}
		select {
		case spare := <-r.spares:
			r.mu.Lock()
			r.missing++
			r.mu.Unlock()
			closeFD(spare)
			if fd, err = openAt(path, openWrite, 0); !noDescriptor(err) { // otherwise another goroutine has the descriptor
				return fd, err
			}
		case <-time.After(pause):
		case <-ctx.Done():
			return -1, fmt.Errorf("%w: %w", kit.ContextError(ctx, nil), err)
		}
	}
}

// closeFile closes a file. If a spare descriptor is missing, the file's becomes one in the same step.
func (r *reserve) closeFile(fd int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.missing == 0 || replaceFD(r.base, fd) != nil {
		closeFD(fd)
		return
	}
	r.missing--
	r.spares <- fd
}
