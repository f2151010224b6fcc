package lock

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	batchSize    = 512 // leases in one request, where the store can
	batchWorkers = 4
	soloWorkers  = 16 // where each lease is a request of its own

	retryLeast = 5 * time.Millisecond // between attempts that fail, however near the deadline is
)

// A renewer renews the leases of one Locker: one heap, one timer, and a few goroutines only while requests are under way.
type renewer struct {
	locker  *Locker
	batch   backend.BatchRenewer // nil where the store has none
	size    int                  // leases that a worker takes at once
	most    int                  // workers at once
	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	heap    byNext
	timer   *time.Timer
	timerAt time.Time // zero when the timer is not set
	working int
	closed  bool
}

func newRenewer(l *Locker) *renewer {
	r := &renewer{locker: l, size: 1, most: soloWorkers}
	if b, ok := l.backend.(backend.BatchRenewer); ok {
		r.batch, r.size, r.most = b, batchSize, batchWorkers
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *renewer) close() {
	r.mu.Lock()
	r.closed = true
	for len(r.heap) > 0 {
		heap.Pop(&r.heap)
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.cancel()
	r.workers.Wait()
}

// add begins to renew h.
func (r *renewer) add(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.left = false
	r.putLocked(h, interval(h))
}

// again moves the next renewal of h, if it is renewed at all, to where its new deadline wants it.
func (r *renewer) again(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.index >= 0 {
		heap.Remove(&r.heap, h.index)
		r.putLocked(h, interval(h))
	}
}

// remove ends the renewal of h. One that is under way goes on, but h does not come back.
func (r *renewer) remove(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.left = true
	if h.index >= 0 {
		heap.Remove(&r.heap, h.index)
	}
}

// interval is the time until the next renewal after one that worked: a third of what is left, jittered so that leases
// that began together drift apart.
func interval(h *hold) time.Duration {
	d := time.Until(h.lease.Deadline()) / 3
	return d - jitter(d/8)
}

func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

func (r *renewer) putLocked(h *hold, after time.Duration) {
	if h.left || h.index >= 0 || r.closed {
		return
	}
	h.next = time.Now().Add(after)
	heap.Push(&r.heap, h)
	r.armLocked()
}

// armLocked sets the timer for the next renewal. One that fires too early finds nothing and is set again.
func (r *renewer) armLocked() {
	if len(r.heap) == 0 || r.closed || r.working >= r.most {
		return
	}
	at := r.heap[0].next
	if !r.timerAt.IsZero() && !at.Before(r.timerAt) {
		return
	}
	r.timerAt = at
	if r.timer == nil {
		r.timer = time.AfterFunc(time.Until(at), r.fire)
	} else {
		r.timer.Reset(time.Until(at))
	}
}

func (r *renewer) fire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timerAt = time.Time{}
	r.startLocked()
	r.armLocked()
}

// startLocked starts a worker if there is work for one.
func (r *renewer) startLocked() {
	if r.working < r.most && !r.closed && len(r.heap) > 0 && !time.Now().Before(r.heap[0].next) {
		r.working++
		r.workers.Go(r.work)
	}
}

func (r *renewer) work() {
	for {
		r.mu.Lock()
		due := r.takeLocked()
		if len(due) == 0 {
			r.working--
			r.armLocked()
			r.mu.Unlock()
			return
		}
		r.startLocked()
		r.mu.Unlock()
		r.renew(due)
	}
}

// takeLocked takes what is due, and where the store renews many at once also what will be soon: fewer, larger requests.
func (r *renewer) takeLocked() []*hold {
	if r.closed || len(r.heap) == 0 {
		return nil
	}
	now := time.Now()
	if now.Before(r.heap[0].next) {
		return nil
	}
	var due []*hold
	for len(due) < r.size && len(r.heap) > 0 {
		h := r.heap[0]
		if ahead := h.next.Sub(now); ahead > 0 && (r.size == 1 || ahead > time.Until(h.lease.Deadline())/16) {
			break
		}
		heap.Pop(&r.heap)
		due = append(due, h)
	}
	return due
}

// renew makes one request for what is due, or one each, and says when to come again.
func (r *renewer) renew(due []*hold) {
	renewals := make([]backend.Renewal, 0, len(due))
	holds := due[:0]
	soonest := time.Duration(-1)
	for _, h := range due {
		ttl, ok := h.renewTo()
		if !ok {
			continue // its maximum hold: the deadline that it has is its last
		}
		renewals = append(renewals, backend.Renewal{Lease: h.lease, TTL: ttl})
		holds = append(holds, h)
		if left := time.Until(h.lease.Deadline()); soonest < 0 || left < soonest {
			soonest = left
		}
	}
	if len(renewals) == 0 {
		return
	}
	// An attempt that hangs must leave time for another.
	ctx, cancel := context.WithTimeout(r.ctx, max(soonest/3, time.Millisecond))
	var errs []error
	if r.batch != nil {
		errs = r.batch.RenewBatch(ctx, renewals)
	} else {
		errs = []error{renewals[0].Lease.Renew(ctx, renewals[0].TTL)}
	}
	cancel()
	for i, h := range holds {
		r.renewed(h, errs[i])
	}
}

func (r *renewer) renewed(h *hold, err error) {
	left := time.Until(h.lease.Deadline())
	after := interval(h)
	switch {
	case errors.Is(err, ErrLost), errors.Is(err, ErrClosed), left <= 0:
		return // the lease itself tells its holder
	case err != nil:
		if r.ctx.Err() == nil {
			r.locker.defaults.logger.Warn("renewal: outcome unknown, trying again", "backend", r.locker.name,
				"owner", h.owner, "left", left, "error", err)
		}
		after = min(left/8, time.Second)
		after = max(after-jitter(after/2), retryLeast)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putLocked(h, after)
}

// renewTo is the TTL to renew to; not ok if the lease has all that it may get.
func (h *hold) renewTo() (ttl time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return h.ttl, true
	}
	ttl = min(h.ttl, time.Until(h.until))
	if ttl <= 0 {
		return 0, false
	}
	gained := backend.Deadline(time.Now(), ttl).Sub(h.lease.Deadline())
	return ttl, gained > backend.Margin(h.ttl)
}

// byNext is a heap of holds, the one to renew first on top.
type byNext []*hold

func (b byNext) Len() int           { return len(b) }
func (b byNext) Less(i, j int) bool { return b[i].next.Before(b[j].next) }
func (b byNext) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *byNext) Push(x any) {
	h := x.(*hold)
	h.index = len(*b)
	*b = append(*b, h)
}

func (b *byNext) Pop() any {
	old := *b
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*b = old[:len(old)-1]
	h.index = -1
	return h
}
