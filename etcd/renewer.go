package etcd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

var errNoAnswer = fmt.Errorf("%w: no answer in time", backend.ErrUnavailable)

// A renewer renews leases on one long stream: a message each, any number under way. clientv3's KeepAliveOnce would open a
// stream for each renewal, and log in for each stream where users are authenticated.
type renewer struct {
	client pb.LeaseClient
	base   context.Context // of the stream: it outlives the call that opens it

	mu      sync.Mutex
	current *renewals
	opening chan struct{} // not nil while a stream is being opened, closed at its end
	closed  bool
	running sync.WaitGroup
}

// renewals is one stream and what waits for its answers.
type renewals struct {
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
	sendMu sync.Mutex

	mu      sync.Mutex
	waiting map[int64][]slot // by lease, in the order of sending
	failed  error
}

// A slot is the place for one answer.
type slot struct {
	batch *renewalBatch
	index int
}

// renewed is the answer to one renewal.
type renewed struct {
	seconds int64  // granted; 0 where the lease is gone
	term    uint64 // of the leader
}

// A renewalBatch is one call's renewals.
type renewalBatch struct {
	mu   sync.Mutex
	left int
	got  []renewed
	errs []error       // errNoAnswer where none has come
	done chan struct{} // closed when nothing is left
}

func newRenewalBatch(n int) *renewalBatch {
	b := &renewalBatch{left: n, got: make([]renewed, n), errs: make([]error, n), done: make(chan struct{})}
	for i := range b.errs {
		b.errs[i] = errNoAnswer
	}
	return b
}

func (b *renewalBatch) answer(i int, got renewed, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got[i], b.errs[i] = got, err
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

// soFar returns the answers that have come.
func (b *renewalBatch) soFar() ([]renewed, []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got), slices.Clone(b.errs)
}

// renew renews leases once and returns what was granted to each, or an error. A stream that does
// not answer within patience is given up, so that the next call reaches another server if there are several.
func (r *renewer) renew(ctx context.Context, patience time.Duration, ids ...int64) ([]renewed, []error) {
	b := newRenewalBatch(len(ids))
	begun := time.Now()
	octx, cancel := context.WithTimeout(ctx, patience)
	s, err := r.open(octx)
	cancel()
	if err != nil {
		if !backend.Ended(ctx) { // the end of octx says nothing of ctx
			err = unavailable(err)
		}
		for i := range b.errs {
			b.errs[i] = err
		}
		return b.got, b.errs
	}
	t := time.AfterFunc(patience-time.Since(begun), func() { s.fail(errNoAnswer) }) // sending may hang, too
	defer t.Stop()
	s.send(b, ids)
	select {
	case <-b.done:
	case <-ctx.Done():
		if time.Since(begun) > patience/2 {
			s.fail(errNoAnswer) // it may hang
		}
	}
	return b.soFar()
}

// open returns the stream, a new one if need be.
func (r *renewer) open(ctx context.Context) (*renewals, error) {
	for {
		r.mu.Lock()
		switch {
		case r.closed:
			r.mu.Unlock()
			return nil, backend.ErrClosed
		case r.current != nil && !r.current.isOver():
			s := r.current
			r.mu.Unlock()
			return s, nil
		case r.opening == nil:
			return r.openLocked(ctx)
		}
		other := r.opening
		r.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, backend.ContextError(ctx, nil)
		}
	}
}

// openLocked opens a stream. It unlocks.
func (r *renewer) openLocked(ctx context.Context) (*renewals, error) {
	opening := make(chan struct{})
	r.opening = opening
	r.mu.Unlock()
	sctx, cancel := context.WithCancel(clientv3.WithRequireLeader(r.base))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := r.client.LeaseKeepAlive(sctx)
	if !stop() && err == nil {
		err = backend.ContextError(ctx, nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opening = nil
	close(opening)
	if err == nil && r.closed {
		err = backend.ErrClosed
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &renewals{stream: stream, cancel: cancel, waiting: make(map[int64][]slot)}
	r.current = s
	r.running.Go(func() {
		s.receive()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.current == s {
			r.current = nil
		}
	})
	return s, nil
}

// send sends the renewals of b.
func (s *renewals) send(b *renewalBatch, ids []int64) {
	s.sendMu.Lock() // the order of sending is the order of waiting
	defer s.sendMu.Unlock()
	for i, id := range ids {
		if !s.expect(id, slot{b, i}) {
			continue
		}
		if err := s.stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
			s.fail(errNoAnswer) // receive gets the reason
		}
	}
}

// expect enters that an answer will come. On a stream that has failed it answers itself.
func (s *renewals) expect(id int64, at slot) bool {
	s.mu.Lock()
	err := s.failed
	if err == nil {
		s.waiting[id] = append(s.waiting[id], at)
	}
	s.mu.Unlock()
	if err != nil {
		at.batch.answer(at.index, renewed{}, err)
	}
	return err == nil
}

func (s *renewals) receive() {
	for {
		resp, err := s.stream.Recv()
		if err != nil {
			s.fail(err)
			return
		}
		s.mu.Lock()
		list := s.waiting[resp.ID]
		switch len(list) {
		case 0:
			s.mu.Unlock()
			continue
		case 1:
			delete(s.waiting, resp.ID)
		default:
			s.waiting[resp.ID] = list[1:]
		}
		s.mu.Unlock()
		list[0].batch.answer(list[0].index, renewed{max(resp.TTL, 0), resp.Header.GetRaftTerm()}, nil)
	}
}

// fail ends the stream, and everything that waits for it.
func (s *renewals) fail(err error) {
	s.cancel()
	s.mu.Lock()
	if s.failed != nil {
		s.mu.Unlock()
		return
	}
	s.failed = err
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, list := range waiting {
		for _, at := range list {
			at.batch.answer(at.index, renewed{}, err)
		}
	}
}

// isOver reports whether the stream has failed, perhaps a moment before receive finds that out and makes room for another one.
func (s *renewals) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed != nil
}

func (r *renewer) close() {
	r.mu.Lock()
	r.closed = true
	s := r.current
	r.mu.Unlock()
	if s != nil {
		s.fail(backend.ErrClosed)
	}
	r.running.Wait()
}
