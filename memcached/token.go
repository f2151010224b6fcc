package memcached

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// tokenAttempts is how often to count up a counter that is evicted again and again.
const tokenAttempts = 8

// nextToken draws the next token from the server's counter. A counter that is missing, because the server is new or has
// dropped it, begins at the time in microseconds: that is beyond every earlier token as long as there was less than one
// grant a microsecond and the clock does not step back. Whatever the clock does, a token is beyond all that this
// Backend has seen.
func (b *Backend) nextToken(c *lane) (uint64, error) {
	name := b.naming.counter()
	for range tokenAttempts {
		seen := b.seen.Load()
		token, err := c.Increment(name, 1)
		switch {
		case errors.Is(err, memcache.ErrCacheMiss):
			token, err = b.begin(c, name, seen)
		case err == nil && token <= seen: // the counter of an older life, or of a slow clock
			token, err = b.raiseCounter(c, name)
		}
		switch {
		case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrCASConflict):
			continue // another client was faster
		case err != nil:
			return 0, fmt.Errorf("token: %w", err)
		case token >= backend.TokenLimit:
			return 0, fmt.Errorf("token: %w: the counter %q is at %d, which is not a time", backend.ErrUnsupported, name, token)
		case token > seen:
			b.raiseSeen(token)
			return token, nil
		}
	}
	return 0, fmt.Errorf("token: %w", errContended)
}

// raiseCounter draws a token from a counter that is behind what this Backend has seen. It swaps the counter, so that only one request
// raises it. If each of many added what is missing, the counter would run ahead of the time by as many times as much, again and again.
func (b *Backend) raiseCounter(c *lane, name string) (uint64, error) {
	for range tokenAttempts {
		item, err := c.Get(name)
		if err != nil {
			return 0, err
		}
		if err := checkCAS(item); err != nil {
			return 0, err
		}
		seen := b.seen.Load()
		if value, err := strconv.ParseUint(string(item.Value), 10, 64); err != nil || value >= seen {
			return c.Increment(name, 1) // another has raised it
		}
		token, err := b.fresh(c, seen)
		if err != nil {
			return 0, err
		}
		item.Value = strconv.AppendUint(nil, token, 10)
		if err := c.CompareAndSwap(item); !errors.Is(err, memcache.ErrCASConflict) {
			return token, err
		}
	}
	return 0, memcache.ErrCASConflict
}

// begin begins the counter anew, and returns its first token, beyond seen. ErrNotStored says that another client was faster.
func (b *Backend) begin(c *lane, name string, seen uint64) (uint64, error) {
	token, err := b.fresh(c, seen)
	if err != nil {
		return 0, err
	}
	return token, c.Add(&memcache.Item{Key: name, Value: strconv.AppendUint(nil, token, 10)})
}

// fresh is a token beyond seen, and beyond those of all counters that were there before: the time.
//
// The clients' clocks tell microseconds and may be wrong. The server's tells whole seconds, and is one for all. So the client's counts if
// the two are about the same, and otherwise it is moved to the server's. It is moved by whole clockWindows, so that clients whose clocks agree are
// moved alike, and their tokens stay in order.
func (b *Backend) fresh(c *lane, seen uint64) (uint64, error) {
	r, err := c.stats()
	if err != nil && !errors.Is(err, errNoStats) {
		return 0, err
	}
	return max(uint64(max(r.within(b.now()).UnixMicro(), 0)), seen+1), nil
}

// raiseSeen notes the greatest token.
func (b *Backend) raiseSeen(token uint64) {
	for seen := b.seen.Load(); seen < token && !b.seen.CompareAndSwap(seen, token); {
		seen = b.seen.Load()
	}
}
