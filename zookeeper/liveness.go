package zookeeper

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A contact records until when the ensemble certainly keeps a session.
//
// Any request that a server receives is a sign of life, but it may reach the leader, which expires sessions, up to a
// hop later. A reply from a server alone proves nothing: the server may have been cut off from the leader, or be a
// leader that was deposed. The reply to a write proves two things. First, a majority followed this leader after the
// write was sent, so any other leader starts later, and gives every session its whole timeout again. Second, the server
// was connected to the leader then, so signs of life that it had received a hop before have arrived. A request may be
// on its way for long, so the server has certainly received a sign of life only when the client has its answer. So
//
//	keptUntil = sent time of the last sign of life that was answered a hop before a committed write was sent, plus the
//	timeout.
type contact struct {
	mu        sync.Mutex
	hop       time.Duration
	timeout   time.Duration
	signs     []sign // in order, at least a sixteenth of a hop apart
	until     time.Time
	lastWrite time.Time // when the last committed write was sent
}

// A sign is a sign of life that the ensemble received at or after at. If a write that is sent at or after ready is
// committed, the leader has received the sign.
type sign struct{ at, ready time.Time }

const maxSigns = 64

// connected records a connection, made by a handshake sent at sent. The leader itself has answered the handshake. Signs
// of life that the previous server had not yet reported may be lost.
func (c *contact) connected(sent time.Time, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = timeout
	c.signs = append(c.signs[:0], sign{sent, sent})
}

// answered records that an answer to a request sent at sent has just arrived.
func (c *contact) answered(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.signs)
	if n == 0 || sent.Sub(c.signs[n-1].at) < c.hop/16 {
		return
	}
	if n == maxSigns {
		c.signs = append(c.signs[:0], c.signs[1:]...)
	}
	c.signs = append(c.signs, sign{sent, time.Now().Add(c.hop)})
}

// committed records that a write sent at sent was committed.
func (c *contact) committed(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.After(c.lastWrite) {
		c.lastWrite = sent
	}
	for _, s := range c.signs {
		if until := backend.Deadline(s.at, c.timeout); !s.ready.After(sent) && until.After(c.until) {
			c.until = until
		}
	}
}

// keptUntil returns the time until which the ensemble certainly keeps the session.
func (c *contact) keptUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

// lastExpiry returns when the session expires if the leader has received no sign of life after the last answered one.
func (c *contact) lastExpiry() (expiry time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.signs); n > 0 {
		expiry = c.signs[n-1].at.Add(c.timeout)
	}
	return expiry
}

// limit returns the latest deadline of a lease that lives as long as the session is kept, but no longer than silence
// after the last write: keptUntil, or the end of silence if that is earlier.
func (c *contact) limit(silence time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return earlier(backend.Deadline(c.lastWrite, silence), c.until)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// writeTime returns when to send a write that proves that the session is kept until end. ok is false if a new sign of
// life is needed first.
func (c *contact) writeTime(end time.Time) (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.signs {
		if !backend.Deadline(s.at, c.timeout).Before(end) {
			return s.ready, true
		}
	}
	return time.Time{}, false
}

// keepAlive sends heartbeats while the session lives, and switches to another server if they are not answered. It
// notices that at a heartbeat, so it sends two or more in this time. The library's own pings are too rare: a third of
// the timeout apart. keepAlive also checks leases that are longer than the session, which live only as long as the
// ensemble certainly keeps the session, and ends the session if it is unused.
func (s *session) keepAlive() {
	interval := min(s.b.limits.heartbeat(s.class), patience(s.class)/2)
	for wait := interval; ; wait = min(interval, s.checkLongLeases()) {
		select {
		case <-time.After(wait):
		case <-s.ended:
			return
		}
		s.endUnused()
		s.heartbeat()
	}
}

// heartbeat sends a sign of life. If the server has sent no frame since a heartbeat that is too old, heartbeat closes
// the connection, and the library connects to the next server.
func (s *session) heartbeat() {
	s.mu.Lock()
	conn, connection, connected := s.conn, s.connection, s.connected
	s.mu.Unlock()
	if !connected {
		return
	}
	sent := time.Now()
	// Before the request: if its reply came first, the server would look silent until the next frame.
	silence := connection.noteHeartbeat(sent)
	s.b.calls.Background(func() {
		if _, _, err := conn.Exists(s.b.root); err == nil || isReply(err) {
			s.contact.answered(sent)
		}
	})
	if silence >= patience(s.class) {
		_ = connection.Conn.Close()
	}
}

// patience returns for how long a server may leave a heartbeat unanswered.
func patience(session time.Duration) time.Duration {
	const least, most = 500 * time.Millisecond, 4 * time.Second
	return min(max(session/6, least), most)
}

// checkLongLeases checks the leases that would end, by their TTL, after the time until which the ensemble certainly
// keeps the session. In good time it sends a write that proves that the session is kept for longer. Once the session
// may have expired, it ends these leases. It returns the time until the next check.
func (s *session) checkLongLeases() time.Duration {
	s.mu.Lock()
	leases := make(map[*node]*kit.Life)
	for n := range s.nodes {
		if current, _ := n.sessions(); current == s && n.lease() != nil { // not a node that is being moved here
			leases[n] = n.lease()
		}
	}
	timeout := s.timeout
	s.mu.Unlock()
	next, now := timeout+time.Second, time.Now() // before limit: a renewal may run at the same time
	limit := s.contact.limit(s.b.guarantees.MaxSilence)
	remaining := limit.Sub(now)
	for n, l := range leases {
		switch {
		case !l.Deadline().After(limit):
		case remaining > 0:
			next = remaining
		default:
			n.freezeDeadline(limit)
			l.Lose() // a lease that has ended needs no write any more
		}
	}
	if next < s.b.limits.longestTTL(timeout)*2/3 && s.proving.CompareAndSwap(false, true) {
		s.b.calls.Background(func() {
			defer s.proving.Store(false)
			_ = s.prove(context.Background())
		})
	}
	return next
}

// prove makes a write that changes nothing, to prove that the ensemble keeps the session.
func (s *session) prove(ctx context.Context) error { return s.check(ctx, s.b.root) }

// proveUntil calls write, which makes a write, until the ensemble certainly keeps the session until end. If the last
// sign of life is too old, this takes up to a hop. It fails if no sign of life is answered.
func (s *session) proveUntil(ctx context.Context, end time.Time, write func(ctx context.Context) error) error {
	for last := time.Now().Add(s.b.options.Timeout + s.b.limits.hop()); s.contact.keptUntil().Before(end); {
		if time.Now().After(last) {
			return errNoAnswer
		}
		at, ok := s.contact.writeTime(end)
		pause := time.Until(at)
		if !ok {
			pause = s.b.limits.tick / 8
		}
		err := s.sleep(ctx, pause)
		if err == nil && ok {
			err = write(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
