package redis

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
	usualLanes = 3                    // one sends, one's answers are handed out, and the server always has one's to work on
	linger     = 2 * time.Millisecond // a request that has waited so long for a lane opens one more
	mostCalls  = 32                   // in one pipeline: the first waits until the server has done the last
)

// Lanes carry the requests of one client to its server. A request that comes alone runs on its caller's goroutine, if it
// can be ended there. Those that come while others are under way wait for a lane, a goroutine with a connection of the
// pool, which takes all that wait in one pipeline. A lane ends when nothing waits.
//
// A connection that hangs holds up only what it carries: requests that have waited for a moment get another lane, up to
// the size of the client's pool.
type lanes struct {
	client *redis.Client
	calls  *calls.Calls
	solo   *solo // for requests alone; nil where there is none
	inline bool  // the client ends what it has sent by the deadlines of contexts
	most   int

	mu    sync.Mutex
	open  int     // lanes, and the request that is alone
	queue []*call // not empty only while a lane is open
	timer *time.Timer
	armed bool
	shun  time.Time // until when nothing goes alone, because that failed
}

func newLanes(client *redis.Client, c *calls.Calls) *lanes {
	o := client.Options()
	l := &lanes{
		client: client, calls: c, inline: endsRequests(o), most: max(o.PoolSize, usualLanes),
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
	request request
	ctx     context.Context // for its values
	end     time.Time
	since   time.Time
	state   atomic.Int32 // moved on by the one who comes first: the lane, or the one who gives up
	answer  chan result
	timer   *time.Timer
}

var callPool = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &call{answer: make(chan result, 1), timer: t}
}}

// do makes a request, once. It returns at end at the latest, and q.grace after ctx has ended.
func (l *lanes) do(ctx context.Context, end time.Time, q request) (any, error) {
	if l.enterAlone(ctx) {
		v, err := l.alone(ctx, end, q)
		l.leaveAlone(err)
		return v, err
	}
	c := callPool.Get().(*call)
	c.request, c.ctx, c.end, c.since = q, ctx, end, time.Now()
	c.state.Store(inQueue)
	l.enqueue(c)
	c.timer.Reset(time.Until(end))
	select {
	case r := <-c.answer:
		return c.done(r)
	case <-c.timer.C:
	case <-ctx.Done():
		c.timer.Reset(min(q.grace, time.Until(end)))
		select {
		case r := <-c.answer:
			return c.done(r)
		case <-c.timer.C:
		}
	}
	return c.giveUp(ctx)
}

// done frees a call that has been answered.
func (c *call) done(r result) (any, error) {
	c.timer.Stop()
	c.request, c.ctx = request{}, nil
	callPool.Put(c)
	return r.v, r.err
}

func (c *call) giveUp(ctx context.Context) (any, error) {
	err := ctx.Err()
	if err == nil {
		err = noAnswer(time.Since(c.since), nil)
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
func (c *call) settle(r result) {
	if c.state.CompareAndSwap(sent, over) {
		c.answer <- r
	} else if late := c.request.late; late != nil {
		late()
	}
}

// A notSentError is that of a request that was given up before it was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

func (l *lanes) enqueue(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, c)
	if l.open < usualLanes {
		l.openLocked()
	} else {
		l.armLocked(linger)
		l.trimLocked()
	}
}

// trimLocked forgets those at the head of the queue that were given up: while all connections hang nobody takes them.
func (l *lanes) trimLocked() {
	n := 0
	for n < len(l.queue) && l.queue[n].state.Load() == over {
		n++
	}
	l.queue = slices.Delete(l.queue, 0, n)
}

func (l *lanes) openLocked() {
	l.open++
	l.calls.Join()
	go l.run()
}

func (l *lanes) armLocked(d time.Duration) {
	if !l.armed && l.open < l.most {
		l.armed = true
		l.timer.Reset(d)
	}
}

// overdue opens one more lane if the first in the queue has waited for long enough.
func (l *lanes) overdue() {
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
func (l *lanes) run() {
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
func (l *lanes) take(batch []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.queue {
		if len(batch) == mostCalls {
			break
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

// send makes the requests of batch and hands out the answers.
func (l *lanes) send(batch []*call) {
	begun := time.Now()
	ctx := deadlineContext{context.Background(), batch[0].end}
	if len(batch) == 1 {
		ctx.Context = context.WithoutCancel(batch[0].ctx)
	}
	for _, c := range batch {
		if c.end.After(ctx.end) {
			ctx.end = c.end // the others give up at their own
		}
	}
	l.exec(ctx, begun, batch, false)
}

func (l *lanes) exec(ctx context.Context, begun time.Time, batch []*call, text bool) {
	cmds := make([]command, len(batch))
	var failed error // of all
	if len(batch) == 1 {
		cmds[0] = batch[0].request.command(ctx, text)
		_ = l.client.Process(ctx, cmds[0])
	} else {
		pipe := l.client.Pipeline()
		for i, c := range batch {
			cmds[i] = c.request.command(ctx, text)
			_ = pipe.Process(ctx, cmds[i])
		}
		// Each command has its own error. Where the connection broke in the middle all have one: also those whose answers had
		// come are unknown then, and sent again.
		_, failed = pipe.Exec(ctx)
	}
	var unknown []*call
	for i, c := range batch {
		v, err := cmds[i].Result()
		if v == nil && err == nil { // a hook of the client's kept it from the server
			err = failed
		}
		switch {
		case err == nil:
		case isReply(err):
			if !text && isNoScript(err) {
				unknown = append(unknown, c)
				continue
			}
		case ctx.Err() != nil:
			err = noAnswer(time.Since(begun), err)
		}
		c.settle(result{v, err})
	}
	if len(unknown) > 0 {
		l.exec(ctx, begun, unknown, true)
	}
}
