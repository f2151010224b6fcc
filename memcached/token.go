package memcached

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

const (
	// tokenAttempts is how often to count up a counter that is evicted again and again.
	tokenAttempts = 8
	// serverLead is by how much the server's clock may be ahead of the time.
	serverLead = time.Second
)

// nextToken draws the next token from the server's counter. A counter that is missing, because the server is new or has
// dropped it, begins at the time in microseconds: that is beyond every earlier token as long as there was less than one
// grant a microsecond and the clock does not step back. Whatever the clock does, a token is beyond all that this
// Backend has seen.
func (b *Backend) nextToken(c *lane) (uint64, error) {
	name := b.naming.counter()
	for range tokenAttempts {
		seen := b.seen.Load()
		token, err := c.Increment(name, 1)
		if err == nil && token <= seen { // the counter of an older life, or of a slow clock
			token, err = b.raiseCounter(c, name)
		}
		if errors.Is(err, memcache.ErrCacheMiss) {
			token, err = b.begin(c, name, seen)
		}
		switch {
		case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCacheMiss): // another client was faster
		case err != nil:
			return 0, fmt.Errorf("token: %w", err)
		case token >= backend.TokenLimit:
			return 0, fmt.Errorf("token: %w: the counter %s is at %d, which is not a time", backend.ErrUnsupported, name, token)
		default:
			b.raiseSeen(token)
			return token, nil
		}
	}
	return 0, fmt.Errorf("token: %w", errContended)
}

// raiseCounter draws a token from a counter that is behind what this Backend has seen. One request at a time raises it: each of many would add
// all that is missing, and the counter would run ahead of the time by as many times as much, again and again.
func (b *Backend) raiseCounter(c *lane, name string) (uint64, error) {
	b.raising.Lock()
	defer b.raising.Unlock()
	token, err := c.Increment(name, 1)
	if seen := b.seen.Load(); err == nil && token <= seen {
		token, err = c.Increment(name, seen-token+1)
	}
	if err == nil {
		b.raiseSeen(token)
	}
	return token, err
}

// begin begins the counter anew, and returns its first token, beyond seen. ErrNotStored says that another client was faster.
//
// The clients' clocks tell microseconds and may be wrong; the server's tells whole seconds, and is one for all. So ours
// counts within what the server's allows. The server's may be behind, and ahead too, as it adds the seconds that have begun since
// its start to the one in which it started. What is right must count as it is, or two clients would begin with the same token.
func (b *Backend) begin(c *lane, name string, seen uint64) (uint64, error) {
	r, err := c.stats()
	if err != nil && !errors.Is(err, errNoStats) {
		return 0, err
	}
	now := r.within(b.now())
	token := max(uint64(max(now.UnixMicro(), 0)), seen+1)
	return token, c.Add(&memcache.Item{Key: name, Value: strconv.AppendUint(nil, token, 10)})
}

// raiseSeen notes the greatest token.
func (b *Backend) raiseSeen(token uint64) {
	for seen := b.seen.Load(); seen < token && !b.seen.CompareAndSwap(seen, token); {
		seen = b.seen.Load()
	}
}
