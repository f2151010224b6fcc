package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
)

var errNoAnswer = fmt.Errorf("%w: no answer in time", backend.ErrUnavailable)

// A renewer renews leases on one long stream, by a message each. What is asked for while others are under way goes out
// together, after their answers. clientv3's KeepAliveOnce would open a stream for each renewal, and log in for each stream
// where users are authenticated.
type renewer struct {
	client pb.LeaseClient
	base   context.Context // of the stream: it outlives the call that opens it

	waiting backlog[*renewals]

	mu     sync.Mutex
	stream *renewalStream // nil where there is none
	begun  time.Time      // when the last exchange was
}

func newRenewer(client pb.LeaseClient, base context.Context, calls *calls.Calls) *renewer {
	r := &renewer{client: client, base: base}
	r.waiting = backlog[*renewals]{calls: calls, work: r.renewAll}
	return r
}

type renewalStream struct {
	pb.Lease_LeaseKeepAliveClient
	ctx    context.Context
	cancel context.CancelFunc
}

// renewals are those of one call. The renewer's lock guards them.
type renewals struct {
	list []renewal
	left int           // without an answer
	over bool          // the caller has gone
	done chan struct{} // closed when all are answered, or the stream has ended
}

// A renewal is of one lease, with its answer.
type renewal struct {
	call    *renewals
	id      int64
	seconds int64  // granted; 0 where the lease is gone
	term    uint64 // of the leader
	err     error  // errNoAnswer until there is one
}

// answerLocked enters an answer, or why there is none.
func (x *renewal) answerLocked(seconds int64, term uint64, err error) {
	x.seconds, x.term, x.err = seconds, term, err
	if x.call.left--; x.call.left == 0 {
		close(x.call.done)
	}
}

// renew renews leases once and returns what was granted to each, or an error. A stream that does
// not answer within patience is given up, so that the next call reaches another server if there are several.
func (r *renewer) renew(ctx context.Context, patience time.Duration, ids ...int64) []renewal {
	c := &renewals{list: make([]renewal, len(ids)), left: len(ids), done: make(chan struct{})}
	for i, id := range ids {
		c.list[i] = renewal{call: c, id: id, err: errNoAnswer}
	}
	r.waiting.add(c)
	hung := time.NewTimer(patience)
	defer hung.Stop()
	for {
		select {
		case <-c.done:
			return c.list
		case <-hung.C:
		case <-ctx.Done():
		}
		r.mu.Lock()
		lasted := time.Since(r.begun)
		short := lasted < patience/2
		if short && ctx.Err() == nil { // these went out late, after the answers to those before
			r.mu.Unlock()
			hung.Reset(patience - lasted)
			continue
		}
		defer r.mu.Unlock()
		if !short && c.left > 0 && r.stream != nil { // it may hang
			r.stream.cancel()
		}
		c.over = true
		return slices.Clone(c.list)
	}
}

func (r *renewer) renewAll(calls []*renewals) {
	asked := make(map[int64][]*renewal)
	r.mu.Lock()
	for _, c := range calls {
		for i := range c.list {
			if !c.over {
				asked[c.list[i].id] = append(asked[c.list[i].id], &c.list[i])
			}
		}
	}
	r.begun = time.Now()
	r.mu.Unlock()
	if len(asked) > 0 {
		r.exchange(asked)
	}
}

// exchange sends a message for each lease and waits for as many answers, or for the end of the stream. So no answer is taken for
// that to a later renewal of the same lease.
func (r *renewer) exchange(asked map[int64][]*renewal) {
	s, err := r.open()
	ids := slices.Collect(maps.Keys(asked))
	var sending sync.WaitGroup
	if err == nil {
		sending.Go(func() { s.send(ids) }) // at the same time: a server whose answers nobody takes reads no more
		err = r.receive(s, asked)
	}
	if err != nil {
		r.fail(s, asked, err)
	}
	sending.Wait()
}

// open returns the stream, a new one if need be.
func (r *renewer) open() (s *renewalStream, err error) {
	r.mu.Lock()
	if r.stream == nil || r.stream.ctx.Err() != nil {
		r.stream = &renewalStream{}
		r.stream.ctx, r.stream.cancel = context.WithCancel(clientv3.WithRequireLeader(r.base))
	}
	s = r.stream // which can be given up from here on
	r.mu.Unlock()
	if s.Lease_LeaseKeepAliveClient == nil {
		s.Lease_LeaseKeepAliveClient, err = r.client.LeaseKeepAlive(s.ctx)
	}
	return s, err
}

func (s *renewalStream) send(ids []int64) {
	for _, id := range ids {
		if s.Send(&pb.LeaseKeepAliveRequest{ID: id}) != nil {
			return // Recv gets the reason
		}
	}
}

// receive enters the answers, and leaves in asked what was not answered.
func (r *renewer) receive(s *renewalStream, asked map[int64][]*renewal) error {
	for len(asked) > 0 {
		resp, err := s.Recv()
		if err != nil {
			return err
		}
		r.mu.Lock()
		for _, x := range asked[resp.ID] {
			x.answerLocked(max(resp.TTL, 0), resp.Header.GetRaftTerm(), nil)
		}
		r.mu.Unlock()
		delete(asked, resp.ID)
	}
	return nil
}

// fail ends the stream, and tells why of what was not answered.
func (r *renewer) fail(s *renewalStream, asked map[int64][]*renewal, err error) {
	switch {
	case r.base.Err() != nil:
		err = backend.ErrClosed
	case s.ctx.Err() != nil: // it was given up
		err = errNoAnswer
	}
	s.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range asked {
		for _, x := range list {
			x.answerLocked(0, 0, err)
		}
	}
}
