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

// A session is one session of the ensemble, from its opening to its end: never the next one that the library would open by
// itself. All leases and waiters of one class of TTLs share it.
type session struct {
	b       *Backend
	class   time.Duration // the timeout to ask for
	probing bool          // it is there to learn what is granted
	first   time.Duration // see handshakeFirst
	contact contact
	over    chan struct{} // closed when it has ended, or must

	watching chan struct{} // has room for the reads that set watches on leases

	mu        sync.Mutex
	conn      *zk.Conn
	id        int64
	timeout   time.Duration // as negotiated
	took      time.Duration // by the last handshake
	wire      *wire         // of the connection at the moment
	ready     chan struct{} // closed while there is a connection
	connected bool
	dials     int                // since the last connection
	redials   kit.Pause          // between them
	dialErr   error              // of the last one
	shakes    int                // handshakes since, none of them answered
	err       error              // why it is over
	nodes     map[*node]struct{} // of leases that live in it
	watches   map[string]*watched
	doomed    map[*doom]struct{} // nodes to be removed, whatever it takes

	creating sync.Map // *creating, by path

	zxid    atomic.Int64 // the latest that a server told
	proving atomic.Bool  // a write is under way to learn that the session lives

	// Guarded by b.mu.
	users int
	idle  *time.Timer
}

// bufferSize is the longest request; the library's own is 1.5 MB for each session.
const bufferSize = 256 << 10

func newSession(b *Backend, class time.Duration) *session {
	return &session{
		b: b, class: class, first: b.first,
		contact:  contact{hop: b.limits.hop()},
		redials:  kit.Pause{Min: 10 * time.Millisecond, Max: 250 * time.Millisecond},
		over:     make(chan struct{}),
		ready:    make(chan struct{}),
		watching: make(chan struct{}, watchAtOnce),
		nodes:    make(map[*node]struct{}),
		watches:  make(map[string]*watched),
		doomed:   make(map[*doom]struct{}),
	}
}

// open starts to connect. What becomes of it shows in ready and over. Close waits until the library's part has ended too: nobody else
// would close that once Close is done.
func (s *session) open() error {
	if !s.b.calls.Begin() {
		return backend.ErrClosed
	}
	s.mu.Lock() // who dials waits for it, so that a session that is connected has its client
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
		<-s.over
		if errors.Is(s.reason(), errLeft) {
			s.hangUp()
		}
		conn.Close()
		for range events { // it is closed at the end
		}
	}()
	if !s.probing {
		s.b.calls.Background(s.keepAlive)
	}
	return nil
}

// quiet is the library's logger: what matters comes back as an error.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// event is called by the library, in order, and must not block.
func (s *session) event(e zk.Event) {
	switch {
	case e.Type == zk.EventSession && e.State == zk.StateDisconnected:
		s.disconnected()
	case e.Type == zk.EventSession && e.State == zk.StateExpired:
		s.die(errExpired)
	case e.Type != zk.EventSession:
		s.fire(e.Path, e.Type == zk.EventNodeDeleted)
	}
}

// attach notes the connection that is being made. It is false when the session is over.
func (s *session) attach(w *wire) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.wire = w
	return true
}

// established is called when a handshake was answered.
func (s *session) established(w *wire, id int64, timeout time.Duration) {
	s.mu.Lock()
	if id == 0 || s.id != 0 && id != s.id {
		s.mu.Unlock()
		s.die(errExpired)
		return
	}
	if timeout < s.class && !s.probing {
		s.mu.Unlock()
		s.die(fmt.Errorf("%w: %v instead of %v", errShorter, timeout, s.class))
		return
	}
	first := s.id == 0
	s.id, s.timeout, s.took = id, timeout, time.Since(w.begun)
	s.dials, s.shakes = 0, 0
	s.redials.Reset()
	if !s.connected {
		s.connected = true
		close(s.ready)
	}
	s.mu.Unlock()
	s.contact.connected(w.begun, timeout)
	if first {
		s.contact.proved(w.begun) // a new session is a write
	}
}

// errShorter tells that the guarantees that were looked up at opening do not hold any more.
var errShorter = errors.New("zookeeper grants shorter sessions than at opening")

func (s *session) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connected {
		s.connected = false
		s.ready = make(chan struct{})
	}
}

// die ends the session: it has expired, or has to be given up. Its leases are lost.
func (s *session) die(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	close(s.over)
	lives := s.livesLocked()
	for _, w := range s.watches {
		w.fire(false)
	}
	s.watches = make(map[string]*watched)
	s.mu.Unlock()
	s.b.forget(s)
	for _, l := range lives {
		l.Lose()
	}
}

// errLeft makes a session end without a word to the servers, which keep its nodes until it expires.
var errLeft = fmt.Errorf("%w: the session is left to expire", backend.ErrClosed)

// hangUp breaks the connection. The library cannot say anything any more, as a session that is over makes no other one.
func (s *session) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil {
		_ = s.wire.Conn.Close()
	}
}

// livesLocked lists the leases in the session. A node may have none yet, and be refused it. The caller holds s.mu.
func (s *session) livesLocked() (lives []*kit.Life) {
	for n := range s.nodes {
		if l := n.lease(); l != nil {
			lives = append(lives, l)
		}
	}
	return lives
}

// reason is why the session is over.
func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// whenReady returns the library's client when there is a connection, waiting for one until end at most.
func (s *session) whenReady(ctx context.Context, end time.Time) (*zk.Conn, error) {
	s.mu.Lock()
	conn, ready, connected := s.conn, s.ready, s.connected
	s.mu.Unlock()
	if connected && !s.isOver() {
		return conn, nil
	}
	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	select {
	case <-ready:
	case <-s.over:
		return nil, s.reason()
	case <-ctx.Done():
		return nil, kit.ContextError(ctx, nil)
	case <-t.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.connected:
		return s.conn, nil
	case s.dialErr != nil:
		return nil, fmt.Errorf("%w: %v", errNoConnection, s.dialErr)
	}
	return nil, errNoConnection
}

var errNoConnection = fmt.Errorf("%w: no connection to zookeeper", backend.ErrUnavailable)

// handshakeLimit bounds a dial, and a handshake: a server that hangs must leave time for another one.
func (s *session) handshakeLimit() time.Duration {
	const least = 250 * time.Millisecond
	limit := min(max(s.class/4, least), handshakeMost)
	if s.probing {
		limit = handshakeMost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.b.servers); n > 1 && s.id == 0 && s.dials <= n {
		limit = min(limit, s.first)
	}
	return limit
}
