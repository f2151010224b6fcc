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
	// UsualWorkers keep the server busy: while one sends and one delivers replies, the server has the third's requests.
	UsualWorkers = 3
	linger       = 2 * time.Millisecond // time in the queue after which another worker starts
	mostCalls    = 32                   // in one pipeline: the first call waits until the server has run the last
	// idleTime is how long an idle worker waits for requests before it ends. With few callers the queue is often empty for
	// a moment, and a new goroutine would first have to grow its stack.
	idleTime = 5 * time.Millisecond
)

// A Batcher sends the requests of one client to its server. If no other request is in progress, a request runs on its
// caller's goroutine, on the connection of Solo. Otherwise it is queued for a worker: a goroutine with a connection of
// the pool, which sends up to mostCalls queued requests in one pipeline. A worker ends when the queue has been empty
// for idleTime.
//
// A connection that hangs delays only its own requests: if a request is queued for longer than linger, another worker
// starts, up to the size of the client's pool.
type Batcher struct {
	client *redis.Client
	start  Starter
	Solo   *solo // sends lone requests; nil if they are queued too
	most   int   // the most workers

	mu          sync.Mutex
	active      int         // workers that are not idle, plus the lone request
	queue       []*call     // empty unless a worker or lone request is active
	timer       *time.Timer // runs while the queue is not empty
	soloRetryAt time.Time   // until then no request uses Solo, because Solo has failed

	resume chan struct{} // wakes an idle worker; unbuffered, so that only a worker that waits receives
}

func NewBatcher(client *redis.Client, start Starter) *Batcher {
	l := &Batcher{
		client: client, start: start, most: max(client.Options().PoolSize, UsualWorkers), resume: make(chan struct{}),
	}
	l.timer = time.AfterFunc(time.Hour, l.addWorkerIfOverdue)
	l.timer.Stop()
	return l
}

// The states of a call.
const (
	queued int32 = iota
	sent
	ended // answered, or its caller has stopped waiting
)

// A call is a request that waits for a worker or for its reply.
type call struct {
	request Request
	ctx     context.Context // of the caller
	end     time.Time
	since   time.Time
	state   atomic.Int32 // changed by the worker or by a caller that stops waiting, whichever is first
	answer  chan Result
	posted  func(Result) // gets the result of a Post; nil for other calls
	timer   *time.Timer

	// Used only by the goroutine that sends the call.
	command command
	result  Result
}

var callPool = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &call{answer: make(chan Result, 1), timer: t}
}}

// Do sends a request, once. It stops waiting at end, or q.Grace after ctx has ended, whichever is first.
func (l *Batcher) Do(ctx context.Context, end time.Time, q Request) (any, error) {
	if l.beginSolo() {
		v, err := l.Solo.do(ctx, end, q)
		l.endSolo(err)
		return v, err
	}
	c := newCall(ctx, end, q)
	l.enqueue(c)
	return c.wait()
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
	if len(list) == 1 {
		v, err := l.Do(ctx, begun.Add(list[0].Limit), list[0])
		return []Result{{v, err}}
	}
	calls := make([]*call, len(list))
	for i, q := range list {
		calls[i] = newCall(ctx, begun.Add(q.Limit), q)
		l.enqueue(calls[i])
	}
	results := make([]Result, len(list))
	for i, c := range calls {
		results[i].V, results[i].Err = c.wait()
	}
	return results
}

func (c *call) wait() (any, error) {
	ctx, end := c.ctx, c.end
	c.timer.Reset(time.Until(end))
	for done := ctx.Done(); ; {
		select {
		case r := <-c.answer:
			return c.recycle(r)
		case <-c.timer.C:
			return c.stopWaiting(ctx)
		case <-done:
			done = nil
			c.timer.Reset(min(c.request.Grace, time.Until(end)))
		}
	}
}

// recycle returns an answered call to the pool, and returns its result.
func (c *call) recycle(r Result) (any, error) {
	c.timer.Stop()
	c.request, c.ctx, c.result = Request{}, nil, Result{}
	callPool.Put(c)
	return r.V, r.Err
}

func (c *call) stopWaiting(ctx context.Context) (any, error) {
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
	} else if f := c.request.OnLateEnd; f != nil {
		f()
	}
}

// A notSentError is the error of a request whose caller stopped waiting before it was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

func (l *Batcher) enqueue(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue = append(l.queue, c); len(l.queue) == 1 {
		l.timer.Reset(linger)
	}
	if l.active < UsualWorkers {
		l.addWorkerLocked()
	}
}

// Waiting returns how many requests wait for a worker. It is for tests.
func (l *Batcher) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// addWorkerLocked resumes an idle worker, or starts one.
func (l *Batcher) addWorkerLocked() {
	l.active++
	select {
	case l.resume <- struct{}{}:
		return
	default:
	}
	if !l.start(func(context.Context) { l.run() }) {
		go l.run() // Close has stopped waiting
	}
}

// addWorkerIfOverdue adds a worker if the first call has been queued for linger.
func (l *Batcher) addWorkerIfOverdue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// No worker removes ended calls while all connections hang.
	for len(l.queue) > 0 && l.queue[0].state.Load() == ended {
		l.queue[0] = nil // the array outlives the slice
		l.queue = l.queue[1:]
	}
	if len(l.queue) == 0 {
		return
	}
	remaining := linger - time.Since(l.queue[0].since)
	if remaining <= 0 {
		if l.active < l.most {
			l.addWorkerLocked()
		}
		remaining = linger
	}
	l.timer.Reset(remaining)
}

// run is a worker: it sends pipelines until it has been idle for idleTime.
func (l *Batcher) run() {
	idle := time.NewTimer(idleTime)
	var batch []*call
	for {
		// Let callers that just got their replies queue their next requests, so that pipelines are fewer and larger.
		runtime.Gosched()
		if batch = l.dequeue(batch[:0]); len(batch) > 0 {
			l.send(batch)
			continue
		}
		idle.Reset(idleTime)
		select {
		case <-l.resume:
		case <-idle.C:
			return
		}
	}
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
			break // a call must not wait for replicas that only others need
		}
		n++
		if c.state.CompareAndSwap(queued, sent) {
			batch = append(batch, c)
		}
	}
	l.queue = slices.Delete(l.queue, 0, n)
	if len(batch) == 0 {
		l.active--
	}
	return batch
}

// send sends batch in one pipeline, and delivers the replies.
func (l *Batcher) send(batch []*call) {
	// Posted calls whose deadline has passed end here. The callers of other calls time out by themselves.
	batch = slices.DeleteFunc(batch, func(c *call) bool {
		late := c.posted != nil && !time.Now().Before(c.end)
		if late {
			c.finish(Result{Err: notSentError{NoAnswer(time.Since(c.since), nil)}})
		}
		return late
	})
	if len(batch) == 0 {
		return
	}
	// Callers with an earlier end stop waiting by themselves.
	last := slices.MaxFunc(batch, func(a, b *call) int { return a.end.Compare(b.end) })
	ctx := DeadlineContext{context.Background(), last.end}
	if len(batch) == 1 {
		ctx.Context = last.ctx
	}
	sendCalls(ctx, l.client, batch)
	for _, c := range batch {
		c.finish(c.result)
	}
}

// A DeadlineContext is a context with another deadline. It has no timer, because go-redis sets the deadline on the
// connection.
type DeadlineContext struct {
	context.Context
	End time.Time
}

func (c DeadlineContext) Deadline() (time.Time, bool) { return c.End, true }

func (c DeadlineContext) Err() error {
	if err := c.Context.Err(); err != nil || time.Now().Before(c.End) {
		return err
	}
	return context.DeadlineExceeded
}
