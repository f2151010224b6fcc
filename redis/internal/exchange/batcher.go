package exchange

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// one sends, one delivers replies, and the server always has the requests of the third
	UsualWorkers = 3
	linger       = 2 * time.Millisecond // the time in the queue after which another worker starts
	mostCalls    = 32                   // in one pipeline: the first waits until the server has done the last
	// idleTime is how long a worker without requests waits for others. With a few callers the queue is often empty for
	// a moment, and the stack of a new goroutine has to grow first.
	idleTime = 5 * time.Millisecond
)

// A Batcher sends the requests of one client to its server. If no other request is in progress, a request runs on its
// caller's goroutine, on the connection of Solo. Otherwise it is queued for a worker: a goroutine with a connection of
// the pool, which sends the whole queue in one pipeline. A worker ends when the queue has been empty for idleTime.
//
// A connection that hangs delays only its own requests: if a request is queued for longer than linger, another worker
// starts, up to the size of the client's pool.
type Batcher struct {
	client *redis.Client
	start  Starter
	Solo   *solo // for requests alone; nil where there is none
	most   int

	mu    sync.Mutex
	open  int     // workers that are not idle, and the request that is alone
	idle  int     // workers that wait for requests
	queue []*call // not empty only while a worker is open
	timer *time.Timer
	armed bool
	shun  time.Time // until when nothing goes alone, because that failed

	resume chan struct{} // receives once for each idle worker that is to continue
}

func NewBatcher(client *redis.Client, start Starter) *Batcher {
	o := client.Options()
	l := &Batcher{
		client: client, start: start, most: max(o.PoolSize, UsualWorkers),
	}
	l.resume = make(chan struct{}, l.most)
	l.timer = time.AfterFunc(time.Hour, l.overdue)
	l.timer.Stop()
	return l
}

// The states of a call.
const (
	queued int32 = iota
	sent
	ended // answered, or abandoned by its caller
)

// A call is a request that waits for a worker or for its answer.
type call struct {
	request Request
	ctx     context.Context // for its values
	end     time.Time
	since   time.Time
	state   atomic.Int32 // changed by the worker or by a caller that stops waiting, whichever is first
	answer  chan Result
	posted  func(Result) // receives the reply of Post
	timer   *time.Timer

	// Of the goroutine that sends.
	command command
	result  Result
}

var callPool = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &call{answer: make(chan Result, 1), timer: t}
}}

// Do sends a request, once. It returns at end, or q.Grace after ctx has ended, whichever is first.
func (l *Batcher) Do(ctx context.Context, end time.Time, q Request) (any, error) {
	if l.enterAlone() {
		v, err := l.Solo.do(ctx, end, q)
		l.leaveAlone(err)
		return v, err
	}
	return l.Begin(ctx, end, q).Wait()
}

// Begin queues a request for a worker. The caller must call Wait.
func (l *Batcher) Begin(ctx context.Context, end time.Time, q Request) *call {
	c := newCall(ctx, end, q)
	l.enqueue(c)
	return c
}

// Post sends a request, once. It does not wait: the worker's goroutine calls done with the result. done must not block.
func (l *Batcher) Post(end time.Time, q Request, done func(Result)) {
	c := newCall(context.Background(), end, q)
	c.posted = done
	l.enqueue(c)
}

func newCall(ctx context.Context, end time.Time, q Request) *call {
	c := callPool.Get().(*call)
	c.request, c.ctx, c.end, c.since = q, ctx, end, time.Now()
	c.state.Store(queued)
	return c
}

// DoAll sends requests concurrently, each within its own Limit from now.
func (l *Batcher) DoAll(ctx context.Context, list []Request) []Result {
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
		return c.recycle(r)
	case <-c.timer.C:
	case <-ctx.Done():
		c.timer.Reset(min(c.request.Grace, time.Until(end)))
		select {
		case r := <-c.answer:
			return c.recycle(r)
		case <-c.timer.C:
		}
	}
	return c.abandon(ctx)
}

// recycle frees an answered call, and returns its result.
func (c *call) recycle(r Result) (any, error) {
	c.timer.Stop()
	c.request, c.ctx, c.result = Request{}, nil, Result{}
	callPool.Put(c)
	return r.V, r.Err
}

func (c *call) abandon(ctx context.Context) (any, error) {
	err := ctx.Err()
	if err == nil {
		err = NoAnswer(time.Since(c.since), nil)
	}
	switch {
	case c.state.CompareAndSwap(queued, ended):
		return nil, notSentError{err}
	case c.state.CompareAndSwap(sent, ended):
		return nil, err
	}
	return c.recycle(<-c.answer)
}

// finish delivers the result, unless the caller has stopped waiting.
func (c *call) finish(r Result) {
	if done := c.posted; done != nil {
		c.posted = nil
		_, _ = c.recycle(r)
		done(r)
		return
	}
	if c.state.CompareAndSwap(sent, ended) {
		c.answer <- r
	} else if late := c.request.Late; late != nil {
		late()
	}
}

// A notSentError is the error of a request that was abandoned before it was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

func (l *Batcher) enqueue(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, c)
	if l.open < UsualWorkers {
		l.openLocked()
	} else {
		l.armLocked(linger)
		l.trimLocked()
	}
}

// trimLocked removes abandoned calls from the head of the queue: while all connections hang, no worker does.
func (l *Batcher) trimLocked() {
	n := 0
	for n < len(l.queue) && l.queue[n].state.Load() == ended {
		n++
	}
	l.queue = slices.Delete(l.queue, 0, n)
}

func (l *Batcher) openLocked() {
	l.open++
	if l.idle > 0 {
		l.idle--
		l.resume <- struct{}{} // does not block: there is room for every worker
		return
	}
	if !l.start(func(context.Context) { l.run() }) {
		go l.run() // Close has stopped waiting
	}
}

func (l *Batcher) armLocked(d time.Duration) {
	if !l.armed && l.open < l.most {
		l.armed = true
		l.timer.Reset(d)
	}
}

// overdue starts another worker if the first call has been queued for linger.
func (l *Batcher) overdue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if len(l.queue) == 0 {
		return
	}
	remaining := linger - time.Since(l.queue[0].since)
	if remaining <= 0 {
		if l.open < l.most {
			l.openLocked()
		}
		remaining = linger
	}
	l.armLocked(remaining)
}

// A worker is its Batcher's client, with one Pipeliner for all pipelines.
type worker struct {
	*redis.Client
	pipe redis.Pipeliner
}

func (w *worker) Pipeline() redis.Pipeliner {
	if w.pipe == nil {
		w.pipe = w.Client.Pipeline()
	}
	return w.pipe
}

// run is what a worker does.
func (l *Batcher) run() {
	w, idle := &worker{Client: l.client}, time.NewTimer(idleTime)
	var batch []*call
	for {
		// Let callers that were just answered send their next requests: pipelines become fewer and larger.
		runtime.Gosched()
		if batch = l.dequeue(batch[:0]); len(batch) > 0 {
			w.send(batch)
		} else if !l.waitIdle(idle) {
			return
		}
	}
}

// waitIdle waits until an idle worker is to continue, and reports whether it is: not if it has waited for idleTime.
func (l *Batcher) waitIdle(t *time.Timer) bool {
	t.Reset(idleTime)
	defer t.Stop()
	select {
	case <-l.resume:
		return true
	case <-t.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle == 0 { // openLocked relies on this worker
		<-l.resume
		return true
	}
	l.idle--
	return false
}

// dequeue returns the calls of the next pipeline. If there are none, the worker is idle.
func (l *Batcher) dequeue(batch []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.queue {
		if len(batch) == mostCalls {
			break
		}
		if len(batch) > 0 && c.request.Replicas != batch[0].request.Replicas {
			break // no call waits for replicas that only others need
		}
		n++
		if c.state.CompareAndSwap(queued, sent) {
			batch = append(batch, c)
		}
	}
	l.queue = slices.Delete(l.queue, 0, n)
	if len(batch) == 0 {
		l.open--
		l.idle++
	}
	return batch
}

// dropOverdue ends posted calls whose time is over. Other calls have a caller that does so.
func dropOverdue(batch []*call) []*call {
	return slices.DeleteFunc(batch, func(c *call) bool {
		late := c.posted != nil && !time.Now().Before(c.end)
		if late {
			c.finish(Result{Err: notSentError{NoAnswer(time.Since(c.since), nil)}})
		}
		return late
	})
}

// send sends batch in one pipeline, and delivers the replies.
func (w *worker) send(batch []*call) {
	if batch = dropOverdue(batch); len(batch) == 0 {
		return
	}
	ctx := DeadlineContext{context.Background(), batch[0].end}
	if len(batch) == 1 {
		ctx.Context = batch[0].ctx
	}
	for _, c := range batch {
		if c.end.After(ctx.End) {
			ctx.End = c.end // callers with an earlier end stop waiting by themselves
		}
	}
	sendCalls(ctx, w, batch)
	for _, c := range batch {
		c.finish(c.result)
	}
}

// A DeadlineContext has the values of its context, but not its end. It has a deadline, which go-redis sets on the
// connection, but no timer.
type DeadlineContext struct {
	context.Context
	End time.Time
}

func (c DeadlineContext) Deadline() (time.Time, bool) { return c.End, true }

func (c DeadlineContext) Done() <-chan struct{} { return nil }

func (c DeadlineContext) Err() error {
	if time.Now().Before(c.End) {
		return nil
	}
	return context.DeadlineExceeded
}
