package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// An inbox receives, on one subscription for the whole Backend, what scripts tell its waiters: "go:owner", the key is
// reserved for that owner; "500:owner", the waiter before it has got its turn, see after 500 ms whether it came.
//
// Messages are hints. All waiters are woken when the subscription is made anew, because messages may have been lost.
type inbox struct {
	client  redis.UniversalClient
	id      string // inboxLen bytes, as the scripts expect
	channel string

	mu      sync.Mutex
	waiters map[string]*waiter // by owner
	up      bool               // the server has confirmed the subscription
	err     error              // why it is not up, if an attempt has failed
	changed chan struct{}      // closed at every change of up or err
	sign    chan struct{}      // not nil while a probe waits for a sign of life; closed by it
	pubsub  *redis.PubSub
	stop    context.CancelFunc // ends the reader; nil before it is started
	done    chan struct{}      // closed when the reader and probes have ended
	closed  bool
	probes  sync.WaitGroup
}

const inboxLen = 32

// A waiter is a queued Acquire.
type waiter struct {
	owner string
	wake  chan struct{} // holds one item; more would say nothing new

	mu      sync.Mutex
	timer   *time.Timer   // while it sleeps
	standby time.Duration // it was told, while awake, to look after a reservation in that time
	watches bool          // when the timer ends it looks after a reservation
}

func newInbox(client redis.UniversalClient, prefix string) *inbox {
	var b [inboxLen / 2]byte
	rand.Read(b[:])
	id := hex.EncodeToString(b[:])
	return &inbox{
		client: client, id: id, channel: prefix + id,
		waiters: make(map[string]*waiter), changed: make(chan struct{}),
	}
}

func (in *inbox) join(owner string) *waiter {
	w := &waiter{owner: owner, wake: make(chan struct{}, 1)}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.waiters[owner] = w
	return w
}

func (in *inbox) part(w *waiter) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiters[w.owner] == w {
		delete(in.waiters, w.owner)
	}
}

// ready reports whether the subscription is up.
func (in *inbox) ready() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.up
}

// confirm makes the subscription, unless it has been made, and waits until the server has confirmed it. It fails when the
// server refuses it or cannot be had for as long as patience.
func (in *inbox) confirm(ctx context.Context, closing <-chan struct{}, patience time.Duration) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		in.mu.Lock()
		up, err, changed := in.up, in.err, in.changed
		if in.stop == nil && !in.closed {
			in.startLocked()
		}
		in.mu.Unlock()
		switch {
		case up:
			return nil
		case err != nil && exchange.IsReply(err) && !exchange.Passing(err):
			return subscribeError(err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return backend.ContextError(ctx, err)
		case <-closing:
			return backend.ErrClosed
		case <-limit.C:
			return subscribeError(exchange.NoAnswer(patience, err))
		}
	}
}

func subscribeError(err error) error {
	return fmt.Errorf("subscribe to be woken: %w", exchange.Unavailable(err))
}

func (in *inbox) startLocked() {
	ctx, cancel := context.WithCancel(context.Background())
	in.stop, in.done = cancel, make(chan struct{})
	go func() {
		defer close(in.done)
		in.read(ctx)
		in.probes.Wait()
	}()
}

// read keeps the subscription until ctx ends. It never blocks on a waiter.
func (in *inbox) read(ctx context.Context) {
	pause := backend.Pause{Min: 10 * time.Millisecond, Max: time.Second}
	for ctx.Err() == nil {
		ps := in.client.Subscribe(ctx) // makes no request yet
		in.setPubSub(ps)
		unblock := context.AfterFunc(ctx, func() { _ = ps.Close() })
		err := ps.Subscribe(ctx, in.channel)
		for err == nil {
			var m any
			if m, err = ps.Receive(ctx); err == nil {
				if in.dispatch(m) {
					pause.Reset()
				}
			}
		}
		unblock()
		_ = ps.Close() // a second Close only says so
		in.set(false, err)
		_ = backend.Sleep(ctx, pause.Next(0))
	}
}

func (in *inbox) setPubSub(ps *redis.PubSub) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pubsub = ps
}

// set notes a change of state, and wakes all waiters when the subscription is up again.
func (in *inbox) set(up bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.up, in.err = up, err
	close(in.changed)
	in.changed = make(chan struct{})
	if up {
		for _, w := range in.waiters {
			w.tell()
		}
	}
}

func (w *waiter) tell() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// dispatch handles what was received, and reports whether it confirmed the subscription.
func (in *inbox) dispatch(m any) (confirmed bool) {
	in.heard()
	switch m := m.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			in.set(true, nil)
			return true
		}
	case *redis.Message:
		in.deliver(m.Payload)
	}
	return false
}

func (in *inbox) deliver(payload string) {
	what, owner, _ := strings.Cut(payload, ":")
	in.mu.Lock()
	w := in.waiters[owner]
	in.mu.Unlock()
	if w == nil {
		return // it has left, and takes itself off the queue
	}
	if what == "go" {
		w.tell()
		return
	}
	if ms, err := strconv.Atoi(what); err == nil && ms > 0 {
		w.standBy(time.Duration(ms) * time.Millisecond)
	}
}

// probeTimeout is how long a subscription that is suspected dead has to show a sign of life.
const probeTimeout = 2 * time.Second

// suspect checks, in the background, a subscription that should have told something and did not, as when a firewall
// has forgotten the connection. A dead one is made anew.
func (in *inbox) suspect() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.sign != nil || in.closed || !in.up {
		return
	}
	sign, ps := make(chan struct{}), in.pubsub
	in.sign = sign
	in.probes.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		if ps.Ping(ctx) == nil {
			select {
			case <-sign:
				return
			case <-ctx.Done():
			}
		}
		_ = ps.Close() // the reader makes a new one
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.sign == sign {
			in.sign = nil
		}
	})
}

// heard notes a sign of life. Closing counts as one: it ends a probe.
func (in *inbox) heard() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.sign != nil {
		close(in.sign)
		in.sign = nil
	}
}

// close ends the subscription, and waits for that, but not for long.
func (in *inbox) close() {
	in.mu.Lock()
	in.closed = true
	stop, done := in.stop, in.done
	in.mu.Unlock()
	in.heard()
	if stop == nil {
		return
	}
	stop()
	t := time.NewTimer(exchange.CloseGrace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C: // a caller's client that sits in its own timeouts
	}
}
