package exchange

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/calls"
)

const (
	UsualLanes = 3                    // one sends, one's answers are handed out, and the server always has one's to work on
	linger     = 2 * time.Millisecond // a request that has waited so long for a lane opens one more
	mostCalls  = 32                   // in one pipeline: the first waits until the server has done the last
)

// Lanes carry the requests of one client to its server. A request that comes alone runs on its caller's goroutine, if it
// can be ended there. Those that come while others are under way wait for a lane, a goroutine with a connection of the
// pool, which takes all that wait in one pipeline. A lane ends when nothing waits.
//
// A connection that hangs holds up only what it carries: requests that have waited for a moment get another lane, up to
// the size of the client's pool.
type Lanes struct {
	client *redis.Client
	calls  *calls.Calls
	Solo   *solo // for requests alone; nil where there is none
	most   int

	mu    sync.Mutex
	open  int     // lanes, and the request that is alone
	queue []*call // not empty only while a lane is open
	timer *time.Timer
	armed bool
	shun  time.Time // until when nothing goes alone, because that failed
}

func NewLanes(client *redis.Client, c *calls.Calls) *Lanes {
	o := client.Options()
	l := &Lanes{
		client: client, calls: c, most: max(o.PoolSize, UsualLanes),
	}
	l.timer = time.AfterFunc(time.Hour, l.overdue)
	l.timer.Stop()
	return l
}

// What has become of a call.
const (
	inQueue int32 = iota // for a lane
	sent
	over // answered, or given up
)

// A call is a request that waits for a lane or for its answer.
type call struct {
	request Request
	ctx     context.Context // for its values
	end     time.Time
	since   time.Time
	state   atomic.Int32 // moved on by the one who comes first: the lane, or the one who gives up
	answer  chan Result
	posted  func(Result) // gets the answer, where nobody waits for it
	timer   *time.Timer
}

var callPool = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &call{answer: make(chan Result, 1), timer: t}
}}

// Do makes a request, once. It returns at end at the latest, and q.grace after ctx has ended.
func (l *Lanes) Do(ctx context.Context, end time.Time, q Request) (any, error) {
	if l.enterAlone() {
		v, err := l.Solo.do(ctx, end, q)
		l.leaveAlone(err)
		return v, err
	}
	return l.Begin(ctx, end, q).Wait()
}

// Begin lets a request wait for a lane. The caller waits for the answer.
func (l *Lanes) Begin(ctx context.Context, end time.Time, q Request) *call {
	c := newCall(ctx, end, q)
	l.enqueue(c)
	return c
}

// Post makes a request, once, for nobody who waits: done gets what became of it, on the lane's goroutine, and must not block.
func (l *Lanes) Post(end time.Time, q Request, done func(Result)) {
	c := newCall(context.Background(), end, q)
	c.posted = done
	l.enqueue(c)
}

func newCall(ctx context.Context, end time.Time, q Request) *call {
	c := callPool.Get().(*call)
	c.request, c.ctx, c.end, c.since = q, ctx, end, time.Now()
	c.state.Store(inQueue)
	return c
}

// DoAll makes requests side by side, each within its own limit from now.
func (l *Lanes) DoAll(ctx context.Context, list []Request) []Result {
	begun := time.Now()
	calls := make([]*call, len(list))
	for i, q := range list {
		calls[i] = l.Begin(ctx, begun.Add(q.Limit), q)
	}
	results := make([]Result, len(list))
	for i, c := range calls {
		results[i].V, results[i].Err = c.Wait()
	}
	return results
}

func (c *call) Wait() (any, error) {
	ctx, end := c.ctx, c.end
	c.timer.Reset(time.Until(end))
	select {
	case r := <-c.answer:
		return c.done(r)
	case <-c.timer.C:
	case <-ctx.Done():
		c.timer.Reset(min(c.request.Grace, time.Until(end)))
		select {
		case r := <-c.answer:
			return c.done(r)
		case <-c.timer.C:
		}
	}
	return c.giveUp(ctx)
}

// done frees a call that has been answered.
func (c *call) done(r Result) (any, error) {
	c.timer.Stop()
	c.request, c.ctx = Request{}, nil
	callPool.Put(c)
	return r.V, r.Err
}

func (c *call) giveUp(ctx context.Context) (any, error) {
	err := ctx.Err()
	if err == nil {
		err = NoAnswer(time.Since(c.since), nil)
	}
	switch {
	case c.state.CompareAndSwap(inQueue, over):
		return nil, notSentError{err}
	case c.state.CompareAndSwap(sent, over):
		return nil, err
	}
	return c.done(<-c.answer)
}

// settle hands out the answer, unless the caller has gone.
func (c *call) settle(r Result) {
	if done := c.posted; done != nil {
		c.posted = nil
		_, _ = c.done(r)
		done(r)
		return
	}
	if c.state.CompareAndSwap(sent, over) {
		c.answer <- r
	} else if late := c.request.Late; late != nil {
		late()
	}
}

// A notSentError is that of a request that was given up before it was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

func (l *Lanes) enqueue(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, c)
	if l.open < UsualLanes {
		l.openLocked()
	} else {
		l.armLocked(linger)
		l.trimLocked()
	}
}

// trimLocked forgets those at the head of the queue that were given up: while all connections hang nobody takes them.
func (l *Lanes) trimLocked() {
	n := 0
	for n < len(l.queue) && l.queue[n].state.Load() == over {
		n++
	}
	l.queue = slices.Delete(l.queue, 0, n)
}

func (l *Lanes) openLocked() {
	l.open++
	l.calls.Join()
	go l.run()
}

func (l *Lanes) armLocked(d time.Duration) {
	if !l.armed && l.open < l.most {
		l.armed = true
		l.timer.Reset(d)
	}
}

// overdue opens one more lane if the first in the queue has waited for long enough.
func (l *Lanes) overdue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if len(l.queue) == 0 {
		return
	}
	left := linger - time.Since(l.queue[0].since)
	if left <= 0 {
		if l.open < l.most {
			l.openLocked()
		}
		left = linger
	}
	l.armLocked(left)
}

// run is a lane.
func (l *Lanes) run() {
	defer l.calls.End()
	var batch []*call
	for {
		// Those who have just been answered, or are about to ask, get to ask: fewer and larger pipelines.
		runtime.Gosched()
		if batch = l.take(batch[:0]); len(batch) == 0 {
			return
		}
		l.send(batch)
	}
}

// take takes what waits. If that is nothing the lane is closed.
func (l *Lanes) take(batch []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.queue {
		if len(batch) == mostCalls {
			break
		}
		if len(batch) > 0 && c.request.Replicas != batch[0].request.Replicas {
			break // nobody waits for replicas that others need
		}
		n++
		if c.state.CompareAndSwap(inQueue, sent) {
			batch = append(batch, c)
		}
	}
	l.queue = slices.Delete(l.queue, 0, n)
	if len(batch) == 0 {
		l.open--
	}
	return batch
}

// dropOverdue gives up what has waited for too long. Who waits for an answer does so himself.
func dropOverdue(batch []*call) []*call {
	return slices.DeleteFunc(batch, func(c *call) bool {
		late := c.posted != nil && !time.Now().Before(c.end)
		if late {
			c.settle(Result{Err: notSentError{NoAnswer(time.Since(c.since), nil)}})
		}
		return late
	})
}

// send makes the requests of batch and hands out the answers.
func (l *Lanes) send(batch []*call) {
	if batch = dropOverdue(batch); len(batch) == 0 {
		return
	}
	ctx := DeadlineContext{context.Background(), batch[0].end}
	if len(batch) == 1 {
		ctx.Context = context.WithoutCancel(batch[0].ctx)
	}
	for _, c := range batch {
		if c.end.After(ctx.End) {
			ctx.End = c.end // the others give up at their own
		}
	}
	list := make([]Request, len(batch))
	for i, c := range batch {
		list[i] = c.request
	}
	for i, r := range Send(ctx, l.client, list) {
		batch[i].settle(r)
	}
}

// A DeadlineContext has a deadline, which go-redis sets on the connection, and no timer of its own.
type DeadlineContext struct {
	context.Context
	End time.Time
}

func (c DeadlineContext) Deadline() (time.Time, bool) { return c.End, true }

func (c DeadlineContext) Err() error {
	if time.Now().Before(c.End) {
		return nil
	}
	return context.DeadlineExceeded
}
