package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// unreachableMutants are bugs of clients that cannot connect.
var unreachableMutants = []mutant{
	{"refused dial is an error of the network", "RefusedDialIsUnavailable"},
	{"refused dial calls a key busy", "RefusedDialIsUnavailable"},
	{"refused dial loses the lease", "RefusedDialIsUnavailable"},
	{"refused dial is repeated without regard to the context", "RefusedDialIsUnavailable"},
	{"refused dial ends the client", "RefusedDialIsUnavailable"},
	{"dial ignores the context", "UnansweredDialHonoursContext"},
	{"Open ignores the context while it dials", "UnansweredDialHonoursContext"},
	{"dial that is given up leaves a goroutine", "UnansweredDialHonoursContext"},
	{"unanswered dial calls a key busy", "UnansweredDialHonoursContext"},
}

var (
	_ conformance.IgnoringLink = (*wire)(nil)
	_ conformance.OpeningLink  = (*wire)(nil)
)

// Ignore implements conformance.IgnoringLink.
func (w *wire) Ignore() { w.set(func() { w.ignore = true; w.breakLocked() }) }

// Open implements conformance.OpeningLink.
func (w *wire) Open(ctx context.Context) (backend.Backend, error) {
	c := newClient(w.server)
	c.wire = w
	if w.server.is("Open ignores the context while it dials") {
		ctx = context.WithoutCancel(ctx)
	}
	if _, err := c.dial(ctx); err != nil {
		if w.server.is(openLeaks) {
			go func() { <-w.server.stop }() // a client whose Open failed is never closed
		}
		c.leases.Close()
		return nil, err
	}
	return c, nil
}

// answers waits until dials get replies. It returns false if ctx ends first.
func (w *wire) answers(ctx context.Context) bool {
	for {
		w.mu.Lock()
		ignore, change := w.ignore && !w.dead, w.change
		w.mu.Unlock()
		if !ignore {
			return true
		}
		select {
		case <-change:
		case <-ctx.Done():
			return false
		}
	}
}

// answered waits until dials get replies. It returns false if ctx ends, or the client is closed, before.
func (c *client) answered(ctx context.Context) bool {
	if c.is("Close waits for a dial") {
		return c.wire.answers(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-ended:
		}
	}()
	return c.wire.answers(ctx)
}

// dial returns the existing connection, or a new one.
func (c *client) dial(ctx context.Context) (*conn, error) {
	if c.is("dial ignores the context") {
		ctx = context.WithoutCancel(ctx)
	}
	if !c.answered(ctx) {
		switch {
		case ctx.Err() == nil: // the client was closed
			return nil, errRefused
		case c.is("dial that is given up leaves a goroutine"):
			for range 3 {
				go func() { <-c.server.stop }() // a client whose Open failed is never closed
			}
		case c.is("unanswered dial calls a key busy"):
			return nil, backend.ErrHeld
		}
		return nil, kit.ContextError(ctx, nil)
	}
	conn, err := c.wire.dial()
	for err != nil && c.is("refused dial is repeated without regard to the context") && !c.wire.isDead() &&
		!c.leases.Closed() {
		time.Sleep(10 * time.Millisecond) // sleeps: before the next dial
		conn, err = c.wire.dial()
	}
	switch {
	case err == nil || c.wire.isDead():
	case c.is("refused dial is an error of the network"):
		return nil, errors.New("connection refused")
	case c.is("refused dial calls a key busy"):
		return nil, backend.ErrHeld
	case c.is("refused dial loses the lease"):
		return nil, fmt.Errorf("%w: connection refused", backend.ErrLost)
	case c.is("refused dial ends the client"):
		c.wire.kill()
	}
	return conn, err
}
