package etcd

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/internal/alarm"
)

// limits end the contexts of requests that take too long, all by one timer that is seldom moved. Deadlines would do that by a
// timer for each request, and by another one at the server, which gRPC tells of them; each of those may take a thread's
// wake-up.
type limits struct {
	mu    sync.Mutex
	clock alarm.Clock[context.CancelFunc]
}

func newLimits() *limits {
	l := &limits{}
	l.clock = alarm.New[context.CancelFunc](l.wake)
	return l
}

// A limited is the time that one request has.
type limited struct {
	limits *limits
	place  alarm.Entry[context.CancelFunc]
}

// begin returns a context that ends after d, and with ctx. Call end in the end.
func (l *limits) begin(ctx context.Context, d time.Duration) (context.Context, *limited) {
	ctx, cancel := context.WithCancel(ctx)
	r := &limited{limits: l}
	r.place.Item = cancel
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock.Set(&r.place, time.Now().Add(d))
	l.clock.Arm()
	return ctx, r
}

// end ends the context.
func (r *limited) end() {
	r.limits.mu.Lock()
	r.limits.clock.Remove(&r.place)
	r.limits.mu.Unlock()
	r.place.Item()
}

// wake ends the contexts whose time is over.
func (l *limits) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock.Woken()
	now := time.Now()
	for e := l.clock.FirstDue(now); e != nil; e = l.clock.FirstDue(now) {
		l.clock.Remove(e)
		e.Item()
	}
	l.clock.Arm()
}

// A valued context ends as it does, and has the values of another one. A release has its caller's values alone, and repeat bounds it:
// the context that it is given would bound it too, by a deadline.
type valued struct {
	context.Context
	of context.Context
}

// Value implements context.Context.
func (c valued) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // how to end with it
		return v
	}
	return c.of.Value(key)
}
