package memcached

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	tokenLimit    = 1 << 55 // package lock keeps eight bits for itself
	tokenAttempts = 8       // to count up a counter that is evicted again and again
)

// nextToken draws the next token from the server's counter. A counter that is missing, because the server is new or has
// dropped it, begins at the time in microseconds: that is beyond every earlier token as long as there was less than one
// grant a microsecond and no client's clock is behind the one that began the last counter. Whatever the clocks do, a
// token is beyond all that this Backend has seen.
func (b *Backend) nextToken(c *memcache.Client) (uint64, error) {
	name := b.naming.counter()
	for range tokenAttempts {
		seen := b.seen.Load()
		token, err := c.Increment(name, 1)
		if err == nil && token <= seen { // the counter of an older life, or of a slow clock
			token, err = c.Increment(name, seen-token+1)
		}
		if errors.Is(err, memcache.ErrCacheMiss) {
			token = max(uint64(max(b.now().UnixMicro(), 0)), seen+1)
			err = c.Add(&memcache.Item{Key: name, Value: strconv.AppendUint(nil, token, 10)})
		}
		switch {
		case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCacheMiss): // another client was faster
		case err != nil:
			return 0, fmt.Errorf("token: %w", err)
		case token >= tokenLimit:
			return 0, fmt.Errorf("token: the counter %s is at %d, which is not a time", name, token)
		default:
			b.raiseSeen(token)
			return token, nil
		}
	}
	return 0, fmt.Errorf("token: %w", errContended)
}

// raiseSeen notes the greatest token.
func (b *Backend) raiseSeen(token uint64) {
	for seen := b.seen.Load(); seen < token && !b.seen.CompareAndSwap(seen, token); {
		seen = b.seen.Load()
	}
}
