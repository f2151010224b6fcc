package zookeeper

import (
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// A contact knows until when the ensemble certainly keeps a session.
//
// Any request that a server receives is a sign of life, but the leader, which expires sessions, hears of it up to a hop
// later. An answer from a server alone proves nothing: the server may have been cut off from the leader, or be a leader
// that was deposed. The answer to a write does prove something: a majority followed this leader after the write was sent,
// so that any other leader starts later and gives every session its whole timeout anew; and the server's link to the
// leader was up then, so that signs of life received a hop before have arrived. So
//
//	bound = sent time of the last sign of life that was a hop old when a committed write was sent, plus the timeout.
type contact struct {
	mu      sync.Mutex
	hop     time.Duration
	timeout time.Duration
	signs   []sign // in order, spaced
	until   time.Time
	proof   time.Time // when the last write was sent that was committed
}

// A sign of life was received by the ensemble at or after at, and by the leader at or before ready if a write that is
// sent then is committed.
type sign struct{ at, ready time.Time }

const mostSigns = 64

// connected notes that a connection was made for the session with a request sent at sent. The leader itself has answered
// it. What the server before had to tell the leader may be lost.
func (c *contact) connected(sent time.Time, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = timeout
	c.signs = append(c.signs[:0], sign{sent, sent})
}

// touched notes an answer to a request sent at sent.
func (c *contact) touched(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.signs)
	if n == 0 || sent.Sub(c.signs[n-1].at) < c.hop/16 {
		return
	}
	if n == mostSigns {
		c.signs = append(c.signs[:0], c.signs[1:]...)
	}
	c.signs = append(c.signs, sign{sent, sent.Add(c.hop)})
}

// proved notes that a write sent at sent was committed, and returns the bound.
func (c *contact) proved(sent time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.After(c.proof) {
		c.proof = sent
	}
	if until := c.boundLocked(sent); until.After(c.until) {
		c.until = until
	}
	return c.until
}

// boundLocked is the bound if a write sent at sent is committed, as far as that tells.
func (c *contact) boundLocked(sent time.Time) time.Time {
	for i := len(c.signs) - 1; i >= 0; i-- {
		if s := c.signs[i]; !s.ready.After(sent) {
			return backend.Deadline(s.at, c.timeout)
		}
	}
	return time.Time{}
}

// assumed is what claim will be, at least, if a write sent now is committed.
func (c *contact) assumed(most time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if end := c.boundLocked(now); end.Before(backend.Deadline(now, most)) {
		return end
	}
	return backend.Deadline(now, most)
}

// bound is the instant until which the ensemble certainly keeps the session.
func (c *contact) bound() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

// heard is when the last sign of life was sent that was answered, and until when the ensemble keeps the session if it was the last
// of which the leader has heard.
func (c *contact) heard() (at, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.signs); n > 0 {
		at = c.signs[n-1].at
	}
	return at, at.Add(c.timeout)
}

// claim is the bound, or most after the last write if that is earlier: what may be made of a lease that lives for as long
// as the session is kept, and no longer than most without a word.
func (c *contact) claim(most time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := backend.Deadline(c.proof, most); end.Before(c.until) {
		return end
	}
	return c.until
}

// provable is when a write has to be sent that proves the session to be kept until end; ok is false when a new sign of
// life is needed first.
func (c *contact) provable(end time.Time) (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.signs {
		if !backend.Deadline(s.at, c.timeout).Before(end) {
			return s.ready, true
		}
	}
	return time.Time{}, false
}
