package conformance_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// manyKeyMutants are bugs of clients that wait for many keys.
var manyKeyMutants = []mutant{
	{"wait has a connection of 100 for itself", "ManyKeysAreWaitedFor"},
	{"client keeps 64 notifications at most", "ManyKeysAreWaitedFor"},
	{"each key that was waited for has a goroutine until Close", "ManyKeysAreWaitedFor"},
	{"client goes on listening to keys that it has waited for", "ManyKeysAreWaitedFor"},
}

// A listener is what a client with one of manyKeyMutants remembers.
type listener struct {
	used   atomic.Int64 // connections in use
	recent atomic.Int64 // notifications of the last few milliseconds
	heard  sync.Map     // keys that it has waited for
}

// takes takes a connection of the client's pool, as a bug. give gives it back.
func (c *client) takes(ctx context.Context) (give func(), err error) {
	const all = 100
	if !c.is("wait has a connection of 100 for itself") {
		return func() {}, nil
	}
	for c.listener.used.Add(1) > all {
		c.listener.used.Add(-1)
		if err := kit.ContextError(ctx, nil); err != nil {
			return nil, err
		}
		time.Sleep(time.Millisecond) // sleeps: until a connection is free
	}
	return func() { c.listener.used.Add(-1) }, nil
}

// waitsIn takes a connection for the whole wait of r, as a bug.
func (c *client) waitsIn(ctx context.Context, r backend.Request) (give func(), err error) {
	if !r.Wait {
		return func() {}, nil
	}
	return c.takes(ctx)
}

// misses delays a waiter at its turn, as a bug, if too many notifications came with its own.
func (c *client) misses() {
	const inbox, timer = 64, 3 * time.Second
	if !c.is("client keeps 64 notifications at most") {
		return
	}
	time.AfterFunc(10*time.Millisecond, func() { c.listener.recent.Add(-1) })
	if c.listener.recent.Add(1) > inbox {
		time.Sleep(timer) // sleeps: until the timer fires
	}
}

// listens keeps a goroutine, or a subscription, for each key that the client has waited for, as a bug.
func (c *client) listens(key string) {
	if _, known := c.listener.heard.LoadOrStore(key, true); known {
		return
	}
	switch {
	case c.is("each key that was waited for has a goroutine until Close"):
		go func() { <-c.done }()
	case c.is("client goes on listening to keys that it has waited for") && c.wire != nil:
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if c.server.listeners == nil {
			c.server.listeners = make(map[string][]*client)
		}
		c.server.listeners[key] = append(c.server.listeners[key], c)
	}
}

// notifyListeners sends a message to the clients that listen to key, as a bug.
func (s *server) notifyListeners(key string) {
	for _, c := range s.listeners[key] {
		if conn, err := c.wire.dial(); err == nil {
			go c.wire.pass(conn, conformance.FromStore, replyLen)
		}
	}
}
