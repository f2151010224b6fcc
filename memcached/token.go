package memcached

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// tokenAttempts is how many times nextToken tries to draw a token, because other clients may change the counter, or the
// server may evict it, at the same time.
const tokenAttempts = 8

// nextToken draws the next token from the server's counter. If the counter is missing, because the server is new or has
// dropped it, the counter starts at the time in microseconds. That is greater than every earlier token if there was
// less than one grant per microsecond and the clock does not step back. Whatever the clock does, a token is greater
// than every token that this Backend has drawn before.
func (b *Backend) nextToken(c *connection) (uint64, error) {
	for range tokenAttempts {
		seen := b.maxToken.Load()
		token, err := c.Increment(counterName, 1)
		switch {
		case errors.Is(err, memcache.ErrCacheMiss):
			token, err = b.startCounter(c, seen)
		case err == nil && token <= seen: // the counter is behind: an older server or a slow clock started it
			token, err = b.raiseCounter(c)
		}
		switch {
		case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCacheMiss),
			errors.Is(err, memcache.ErrCASConflict):
			continue // another client was faster
		case err != nil:
			return 0, fmt.Errorf("token: %w", err)
		case token >= backend.TokenLimit:
			return 0, fmt.Errorf("token: %w: the counter %q is at %d, which is not a time",
				backend.ErrUnsupported, counterName, token)
		case token > seen:
			b.raiseMaxToken(token)
			return token, nil
		}
	}
	return 0, fmt.Errorf("token: %w", errContended)
}

// raiseCounter draws a token from a counter that is behind the tokens that this Backend has drawn. It swaps the
// counter, so that only one request raises it. If each of many requests added the difference, the counter would run
// ahead of the time by a multiple of the difference.
func (b *Backend) raiseCounter(c *connection) (uint64, error) {
	for range tokenAttempts {
		item, err := c.get(counterName)
		if err != nil {
			return 0, err
		}
		seen := b.maxToken.Load()
		if value, err := strconv.ParseUint(string(item.Value), 10, 64); err != nil || value >= seen {
			return c.Increment(counterName, 1) // another request has raised the counter
		}
		token, err := b.timeToken(c, seen)
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

// startCounter creates the counter and returns its first token, which is greater than seen. ErrNotStored means that
// another client was faster.
func (b *Backend) startCounter(c *connection, seen uint64) (uint64, error) {
	token, err := b.timeToken(c, seen)
	if err != nil {
		return 0, err
	}
	return token, c.Add(&memcache.Item{Key: counterName, Value: strconv.AppendUint(nil, token, 10)})
}

// timeToken returns the time as a token that is greater than seen and than the tokens of all earlier counters.
//
// A client's clock has microseconds but may be wrong. The server's clock has whole seconds but is the same for all
// clients. So if both clocks are about the same, the client's time is used. Otherwise the time is moved towards the
// server's by whole clockWindows, so that clients whose clocks agree move alike and their tokens stay in order.
func (b *Backend) timeToken(c *connection, seen uint64) (uint64, error) {
	r, err := c.stats()
	if err != nil && !errors.Is(err, errNoStats) {
		return 0, err
	}
	return max(uint64(max(r.nearServerTime(b.now()).UnixMicro(), 0)), seen+1), nil
}

// raiseMaxToken records a token that was drawn.
func (b *Backend) raiseMaxToken(token uint64) {
	for seen := b.maxToken.Load(); seen < token && !b.maxToken.CompareAndSwap(seen, token); {
		seen = b.maxToken.Load()
	}
}
