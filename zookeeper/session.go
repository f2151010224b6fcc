package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A session is one session of the ensemble, from its opening to its end. It never continues in the next session, which
// the library would open by itself. All leases and waiters of a class of TTLs share one session.
type session struct {
	b       *Backend
	class   time.Duration // the requested timeout
	probing bool          // opened only to learn which timeout the servers grant
	contact contact
	ended   chan struct{} // closed when the session ends

	watchSlots chan struct{} // limits the concurrent reads that set watches on leases
	creations  sync.Map      // *creation, by path
	zxid       atomic.Int64  // the latest zxid that a server reported
	proving    atomic.Bool   // a write is under way to prove that the session lives
	orphans    atomic.Int64  // pending deletes of nodes whose leases were lost

	mu         sync.Mutex
	conn       *zk.Conn
	id         int64
	timeout    time.Duration // as negotiated
	connection *connection   // the current one
	ready      chan struct{} // closed while the session is connected
	connected  bool
	dials      int       // since the last answered handshake
	redial     kit.Pause // between dials
	dialErr    error     // of the last dial
	handshakes int       // since the last one was answered
	err        error     // why the session has ended
	nodes      map[*node]struct{}
	watches    map[string]*watch

	// Guarded by b.mu.
	users       int
	unusedSince time.Time // when the last user left
}

// bufferSize is the longest request, in bytes. The library's default is 1.5 MB for each session.
const bufferSize = 320 << 10

func newSession(b *Backend, class time.Duration) *session {
	return &session{
		b: b, class: class,
		contact:    contact{hop: b.limits.hop()},
		redial:     kit.Pause{Min: 10 * time.Millisecond, Max: 250 * time.Millisecond},
		ended:      make(chan struct{}),
		ready:      make(chan struct{}),
		watchSlots: make(chan struct{}, watchAtOnce),
		nodes:      make(map[*node]struct{}),
		watches:    make(map[string]*watch),
	}
}

// open starts to connect. The channels ready and ended report the result. Close also waits until the library's client
// has ended.
func (s *session) open() error {
	if !s.b.calls.Begin() {
		return backend.ErrClosed
	}
	s.mu.Lock() // dial locks it too, so a connected session has its conn
	conn, events, err := zk.Connect(s.b.servers, s.class,
		zk.WithDialer(s.dial),
		zk.WithHostProvider(&hosts{s: s}),
		zk.WithEventCallback(s.event),
		zk.WithLogger(quiet{}),
		zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(bufferSize),
	)
	s.conn = conn
	s.mu.Unlock()
	if err != nil {
		s.b.calls.End()
		return err
	}
	go func() {
		defer s.b.calls.End()
		<-s.ended
		s.mu.Lock()
		reason, c := s.err, s.connection // the last one: dial makes no other
		s.mu.Unlock()
		if c != nil && errors.Is(reason, errLeftToExpire) {
			_ = c.Conn.Close() // before the library sends a request to end the session
		}
		conn.Close()
		if c != nil { // the library waits for long for the reply to that request, and leaves an expired session's open
			_ = c.Conn.Close()
		}
		for range events { // until the library closes it
		}
	}()
	if !s.probing {
		s.b.calls.Background(s.keepAlive)
	}
	return nil
}

// quiet discards the library's log, because the library returns its errors.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// event is called by the library, in order, and must not block.
func (s *session) event(e zk.Event) {
	switch {
	case e.Type == zk.EventSession && e.State == zk.StateDisconnected:
		s.mu.Lock()
		if s.connected {
			s.connected = false
			s.ready = make(chan struct{})
		}
		s.mu.Unlock()
	case e.Type == zk.EventSession && e.State == zk.StateExpired:
		s.end(errExpired)
	case e.Type != zk.EventSession:
		s.notifyWatchers(e.Path, e.Type == zk.EventNodeDeleted)
	}
}

// established is called when a server has answered a handshake.
func (s *session) established(c *connection, id int64, timeout time.Duration) {
	s.mu.Lock()
	if id == 0 || s.id != 0 && id != s.id {
		s.mu.Unlock()
		s.end(errExpired)
		return
	}
	if timeout < s.class && !s.probing { // the guarantees that were found at opening no longer hold
		s.mu.Unlock()
		s.end(fmt.Errorf("zookeeper grants shorter sessions than at opening: %v instead of %v", timeout, s.class))
		return
	}
	first := s.id == 0
	s.id, s.timeout = id, timeout
	s.dials, s.handshakes = 0, 0
	s.redial.Reset()
	if !s.connected {
		s.connected = true
		close(s.ready)
	}
	s.mu.Unlock()
	s.contact.connected(c.handshakeSent, timeout)
	if first {
		s.contact.committed(c.handshakeSent) // a new session is a write
	}
}

var (
	errExpired = errors.New("the session has expired")
	// errAbandoned reports a session that this client abandoned. Unlike an expired session, it may live on at the servers,
	// with its nodes.
	errAbandoned = errors.New("the session was abandoned: zookeeper does not answer handshakes")
	errIdle      = errors.New("the session was not in use")
	// errLeftToExpire ends a session without a request to the servers, which keep its nodes until the session expires.
	errLeftToExpire = fmt.Errorf("%w: the session is left to expire", backend.ErrClosed)
)

// endedSession reports whether err is the end of a session, so that another session may succeed.
func endedSession(err error) bool { return errors.Is(err, errExpired) || errors.Is(err, errAbandoned) }

// end ends the session, which has expired, cannot be kept, or is not needed. err is the reason. Its leases are lost.
func (s *session) end(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	close(s.ended)
	lives := s.livesLocked()
	for _, w := range s.watches {
		w.notify(false)
	}
	s.watches = make(map[string]*watch)
	s.mu.Unlock()
	s.b.mu.Lock()
	if s.b.sessions[s.class] == s {
		delete(s.b.sessions, s.class)
	}
	s.b.mu.Unlock()
	for _, l := range lives {
		l.Lose()
	}
}

func (s *session) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// endReason returns why the session has ended, or nil if it has not.
func (s *session) endReason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// livesLocked returns the leases of the session's nodes. A node may have none yet. The caller holds s.mu.
func (s *session) livesLocked() (lives []*kit.Life) {
	for n := range s.nodes {
		if l := n.lease(); l != nil {
			lives = append(lives, l)
		}
	}
	return lives
}

// sleep waits for d. If ctx or the session ends first, it returns the reason.
func (s *session) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-s.ended:
		return s.endReason()
	}
	return kit.ContextError(ctx, nil)
}

// idleTime is how long a session without leases and requests is kept.
const idleTime = 30 * time.Second

// checkOut returns the session of a class, which it opens if there is none. The caller is a user of the session until
// checkIn. Once Close has begun, it returns ErrClosed.
func (b *Backend) checkOut(class time.Duration) (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leases.Closed() {
		return nil, backend.ErrClosed
	}
	s := b.sessions[class]
	if s == nil || s.hasEnded() {
		s = newSession(b, class)
		if err := s.open(); err != nil {
			return nil, err
		}
		b.sessions[class] = s
	}
	s.users++
	return s, nil
}

// checkOutAny is checkOut for requests that any session can make: it opens a session only if there is none.
func (b *Backend) checkOutAny(class time.Duration) (*session, error) {
	b.mu.Lock()
	if b.sessions[class] == nil {
		for _, other := range b.sessions {
			if !other.hasEnded() {
				class = other.class
			}
		}
	}
	b.mu.Unlock()
	return b.checkOut(class)
}

// checkIn ends a use of s.
func (b *Backend) checkIn(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.users--
	s.unusedSince = time.Now()
}

// endUnused ends s if it has had no users for b.idle.
func (s *session) endUnused() {
	b := s.b
	b.mu.Lock()
	unused := s.users == 0 && time.Since(s.unusedSince) >= b.idle && b.sessions[s.class] == s
	if unused {
		delete(b.sessions, s.class) // before another user finds it
	}
	b.mu.Unlock()
	if unused {
		s.end(errIdle)
	}
}
