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
	"github.com/anylock/lock/backend/kit"
)

var errNoAnswer = fmt.Errorf("%w: no answer in time", backend.ErrUnavailable)

// A renewer renews leases on one long stream, with one message each. Renewals that are requested during an exchange are
// sent together after the exchange. clientv3's KeepAliveOnce would open a stream for each renewal, and log in for each
// stream if users are authenticated.
type renewer struct {
	client pb.LeaseClient
	base   context.Context // the context of the stream, which outlives the call that opens it

	waiting backlog[*renewals]

	mu     sync.Mutex
	stream *renewalStream // nil if there is none
	begun  time.Time      // when the last exchange began
}

func newRenewer(client pb.LeaseClient, leases *kit.Leases) *renewer {
	r := &renewer{client: client, base: leases.Base()}
	r.waiting = backlog[*renewals]{leases: leases, process: r.renewAll}
	return r
}

type renewalStream struct {
	pb.Lease_LeaseKeepAliveClient
	ctx    context.Context
	cancel context.CancelFunc
}

// renewals are the renewals of one call. renewer.mu guards them.
type renewals struct {
	list       []renewal
	unanswered int
	abandoned  bool          // the caller has returned
	done       chan struct{} // closed when all are answered or the stream has ended
}

// A renewal is the renewal of one lease, with its reply.
type renewal struct {
	call  *renewals
	id    int64
	reply *pb.LeaseKeepAliveResponse // its Header is from just before the renewal; its TTL is 0 if the lease has ended
	err   error                      // errNoAnswer until there is a reply
}

// renew renews leases once, and returns the replies. If the stream does not reply within patience, renew cancels it, so
// that the next call reaches another server if there are several.
func (r *renewer) renew(ctx context.Context, patience time.Duration, ids ...int64) []renewal {
	c := &renewals{list: make([]renewal, len(ids)), unanswered: len(ids), done: make(chan struct{})}
	for i, id := range ids {
		c.list[i] = renewal{call: c, id: id, err: errNoAnswer}
	}
	r.waiting.add(c)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			return c.list
		case <-timer.C:
		case <-ctx.Done():
		}
		r.mu.Lock()
		lasted := time.Since(r.begun)
		recent := lasted < patience/2
		if recent && ctx.Err() == nil { // these renewals waited for the replies to earlier ones
			r.mu.Unlock()
			timer.Reset(patience - lasted)
			continue
		}
		defer r.mu.Unlock()
		if !recent && c.unanswered > 0 && r.stream != nil { // the server may hang
			r.stream.cancel()
		}
		c.abandoned = true
		return slices.Clone(c.list)
	}
}

func (r *renewer) renewAll(calls []*renewals) {
	requested := make(map[int64][]*renewal)
	r.mu.Lock()
	for _, c := range calls {
		for i := range c.list {
			if !c.abandoned {
				requested[c.list[i].id] = append(requested[c.list[i].id], &c.list[i])
			}
		}
	}
	r.begun = time.Now()
	r.mu.Unlock()
	if len(requested) > 0 {
		r.exchange(requested)
	}
}

// exchange sends a message for each lease and waits for as many replies, or for the end of the stream. So a reply is
// never mistaken for the reply to a later renewal of the same lease.
func (r *renewer) exchange(requested map[int64][]*renewal) {
	s, err := r.open()
	ids := slices.Collect(maps.Keys(requested))
	var sending sync.WaitGroup
	if err == nil {
		sending.Go(func() { // while receiving, because a server stops reading if nobody reads its replies
			for _, id := range ids {
				if s.Send(&pb.LeaseKeepAliveRequest{ID: id}) != nil {
					return // Recv returns the reason
				}
			}
		})
	}
	for err == nil && len(requested) > 0 {
		var reply *pb.LeaseKeepAliveResponse
		if reply, err = s.Recv(); err == nil {
			r.answer(requested, reply.ID, reply, nil)
		}
	}
	if err != nil {
		switch {
		case r.base.Err() != nil:
			err = backend.ErrClosed
		case s.ctx.Err() != nil: // renew has canceled it
			err = errNoAnswer
		}
		s.cancel()
		for id := range requested {
			r.answer(requested, id, nil, err)
		}
	}
	sending.Wait()
}

// answer records the reply for a lease, or the error if there is no reply, and deletes the answered renewals from
// requested.
func (r *renewer) answer(requested map[int64][]*renewal, id int64, reply *pb.LeaseKeepAliveResponse, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range requested[id] {
		x.reply, x.err = reply, err
		if x.call.unanswered--; x.call.unanswered == 0 {
			close(x.call.done)
		}
	}
	delete(requested, id)
}

// open returns the stream. It opens a new one if necessary.
func (r *renewer) open() (s *renewalStream, err error) {
	r.mu.Lock()
	if r.stream == nil || r.stream.ctx.Err() != nil {
		r.stream = &renewalStream{}
		r.stream.ctx, r.stream.cancel = context.WithCancel(clientv3.WithRequireLeader(r.base))
	}
	s = r.stream // renew may cancel it from here on
	r.mu.Unlock()
	if s.Lease_LeaseKeepAliveClient == nil {
		s.Lease_LeaseKeepAliveClient, err = r.client.LeaseKeepAlive(s.ctx)
	}
	return s, err
}
