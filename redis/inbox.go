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
	leases  *kit.Leases // Close waits for the goroutine that reads
	id      string      // inboxLen bytes, as the scripts expect
	channel string

	mu      sync.Mutex
	waiters map[string]waiter  // by owner
	reading bool               // a goroutine maintains the subscription
	end     context.CancelFunc // ends the subscription; nil while the server has not confirmed one
	err     error              // why there is no subscription, if an attempt has failed
	changed chan struct{}      // closed at every change of end or err
	heard   uint64             // number of messages received
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

func newInbox(client redis.UniversalClient, leases *kit.Leases, prefix string) *inbox {
	var b [inboxLen / 2]byte
	rand.Read(b[:])
	id := hex.EncodeToString(b[:])
	return &inbox{
		client: client, leases: leases, id: id, channel: prefix + id,
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

func (in *inbox) notify(owner string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.heard++
	in.waiters[owner].notify() // nil if the attempt has ended: then it removes its queue entry
}

// A subscription is the inbox's subscription, as it was at some time.
type subscription struct {
	end   context.CancelFunc // nil while the server has not confirmed one
	heard uint64             // number of messages that the inbox had received
}

// current returns the current subscription.
func (in *inbox) current() subscription {
	in.mu.Lock()
	defer in.mu.Unlock()
	return subscription{in.end, in.heard}
}

// endIfSilent ends s, so that the inbox subscribes again, unless a message has arrived since. If s has ended already,
// it does nothing.
func (in *inbox) endIfSilent(s subscription) {
	if s.end != nil && in.current().heard == s.heard {
		s.end()
	}
}

// awaitSubscription starts the subscription if necessary, and waits until the server has confirmed it. It fails if the
// server refuses, or cannot be reached within patience.
func (in *inbox) awaitSubscription(ctx context.Context, patience time.Duration) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		in.mu.Lock()
		if !in.reading {
			in.reading = in.leases.Go(func(context.Context) { in.read(in.leases.Closing()) })
		}
		subscribed, err, changed := in.end != nil, in.err, in.changed
		in.mu.Unlock()
		switch {
		case subscribed:
			return nil
		case exchange.IsReply(err) && !exchange.Passing(err):
			return fmt.Errorf("%w: %w", errSubscribe, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return kit.ContextError(ctx, err)
		case <-limit.C:
			return fmt.Errorf("%w: %w", errSubscribe, exchange.NoAnswer(patience, err))
		}
	}
}

var errSubscribe = errors.New("subscribe to be woken")

// read maintains the subscription until ctx ends. It never blocks on a waiter.
func (in *inbox) read(ctx context.Context) {
	pause := kit.Pause{Min: 10 * time.Millisecond, Max: time.Second}
	for ctx.Err() == nil {
		confirmed, err := in.receive(ctx)
		if confirmed {
			pause.Reset()
		}
		in.setState(nil, err)
		_ = kit.Sleep(ctx, pause.Next(0))
	}
}

// confirmTimeout is how long the server may take to confirm a subscription: a firewall or proxy may drop everything
// that is sent on its connection.
const confirmTimeout = 2 * time.Second

// receive subscribes, and delivers messages until the subscription ends. confirmed reports whether the server has
// confirmed the subscription.
func (in *inbox) receive(ctx context.Context) (confirmed bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	ps := in.client.Subscribe(ctx) // makes no request yet
	defer ps.Close()
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() }) // because go-redis does not stop reading when ctx ends
	defer stop()
	if err := ps.Subscribe(ctx, in.channel); err != nil {
		return false, err
	}
	if _, err := ps.ReceiveTimeout(ctx, confirmTimeout); err != nil {
		return false, err
	}
	in.setState(end, nil)
	for {
		m, err := ps.ReceiveMessage(ctx)
		if err != nil {
			return true, err
		}
		in.notify(m.Payload)
	}
}

// setState records the state of the subscription. If the subscription is new, setState wakes all waiters.
func (in *inbox) setState(end context.CancelFunc, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.end, in.err = end, err
	close(in.changed)
	in.changed = make(chan struct{})
	if end != nil {
		for _, w := range in.waiters {
			w.notify()
		}
	}
}
