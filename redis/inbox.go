package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// An inbox receives the notifications that scripts publish for the waiters of one Backend, on one subscription. A
// message is the owner for which a key is reserved.
//
// Messages are hints, because they may be lost. So a new subscription wakes all waiters.
type inbox struct {
	client  redis.UniversalClient
	id      string // inboxLen bytes, as the scripts expect
	channel string

	mu      sync.Mutex
	waiters map[string]waiter // by owner
	up      bool              // the server has confirmed the subscription
	err     error             // why the subscription is not up, if an attempt has failed
	changed chan struct{}     // closed at every change of up or err
	pubsub  *redis.PubSub
	probe   *time.Timer        // closes pubsub unless a message arrives first; nil if no probe is under way
	stop    context.CancelFunc // ends the reader; nil before the reader is started
	done    chan struct{}      // closed when the reader and pings have ended
	closed  bool
	pings   sync.WaitGroup
}

const inboxLen = 32

// A waiter is the channel, of capacity 1, that wakes an Acquire.
type waiter chan struct{}

func (w waiter) notify() {
	select {
	case w <- struct{}{}:
	default:
	}
}

func newInbox(client redis.UniversalClient, prefix string) *inbox {
	var b [inboxLen / 2]byte
	rand.Read(b[:])
	id := hex.EncodeToString(b[:])
	return &inbox{
		client: client, id: id, channel: prefix + id,
		waiters: make(map[string]waiter), changed: make(chan struct{}),
	}
}

// add registers an owner for notifications.
func (in *inbox) add(owner string) waiter {
	w := make(waiter, 1)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.waiters[owner] = w
	return w
}

// remove undoes add.
func (in *inbox) remove(owner string, w waiter) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiters[owner] == w {
		delete(in.waiters, owner)
	}
}

// ready reports whether the subscription is up.
func (in *inbox) ready() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.up
}

// awaitSubscription starts the subscription if necessary, and waits until the server has confirmed it. It fails if the
// server refuses, or cannot be reached within patience.
func (in *inbox) awaitSubscription(ctx context.Context, patience time.Duration) error {
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
			return kit.ContextError(ctx, err)
		case <-limit.C:
			return subscribeError(exchange.NoAnswer(patience, err))
		}
	}
}

func subscribeError(err error) error {
	return fmt.Errorf("%w: %w", errSubscribe, exchange.Unavailable(err))
}

var errSubscribe = errors.New("subscribe to be woken")

func (in *inbox) startLocked() {
	ctx, cancel := context.WithCancel(context.Background())
	in.stop, in.done = cancel, make(chan struct{})
	go func() {
		defer close(in.done)
		in.read(ctx)
		in.pings.Wait()
	}()
}

// read maintains the subscription until ctx ends. It never blocks on a waiter.
func (in *inbox) read(ctx context.Context) {
	pause := kit.Pause{Min: 10 * time.Millisecond, Max: time.Second}
	for ctx.Err() == nil {
		ps := in.client.Subscribe(ctx) // makes no request yet
		unblock := context.AfterFunc(ctx, func() { _ = ps.Close() })
		err := ps.Subscribe(ctx, in.channel)
		in.mu.Lock()
		in.pubsub = ps
		in.startProbeLocked() // the first message confirms the subscription
		in.mu.Unlock()
		for err == nil {
			var m any
			if m, err = ps.Receive(ctx); err == nil {
				if in.dispatch(m) {
					pause.Reset()
				}
			}
		}
		unblock()
		_ = ps.Close() // the error of a second Close does not matter
		in.endProbe()
		in.setState(false, err)
		_ = kit.Sleep(ctx, pause.Next(0))
	}
}

// setState records the state of the subscription. If the subscription is new, it wakes all waiters.
func (in *inbox) setState(up bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.up, in.err = up, err
	close(in.changed)
	in.changed = make(chan struct{})
	if up {
		for _, w := range in.waiters {
			w.notify()
		}
	}
}

// dispatch handles a message, and reports whether it confirms the subscription.
func (in *inbox) dispatch(m any) (confirmed bool) {
	in.endProbe()
	switch m := m.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			in.setState(true, nil)
			return true
		}
	case *redis.Message:
		in.notify(m.Payload)
	}
	return false
}

func (in *inbox) notify(owner string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.waiters[owner].notify() // nil if the attempt has ended: then it removes its queue entry
}

// probeTimeout is how long the server may take to confirm the subscription, or to reply to a ping on it.
const probeTimeout = 2 * time.Second

// startProbeLocked replaces the subscription unless a message arrives in time: a firewall or proxy may drop everything
// that is sent on its connection.
func (in *inbox) startProbeLocked() {
	ps := in.pubsub
	in.probe = time.AfterFunc(probeTimeout, func() { _ = ps.Close() }) // read subscribes again
}

// endProbe ends a probe, because a message has arrived, the subscription has ended or the inbox is closed.
func (in *inbox) endProbe() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.probe != nil {
		in.probe.Stop()
		in.probe = nil
	}
}

// checkSubscription pings the server on the subscription, in the background, after a message was missed. If no message
// arrives in time, the subscription is replaced.
func (in *inbox) checkSubscription() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.probe != nil || in.closed || !in.up {
		return
	}
	in.startProbeLocked()
	ps := in.pubsub
	in.pings.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		_ = ps.Ping(ctx)
	})
}

// close ends the subscription, and waits at most CloseGrace for its goroutines.
func (in *inbox) close() {
	in.mu.Lock()
	in.closed = true
	stop, done := in.stop, in.done
	in.mu.Unlock()
	in.endProbe()
	if stop == nil {
		return
	}
	stop()
	t := time.NewTimer(exchange.CloseGrace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C: // a caller's client is still within its own timeouts
	}
}
