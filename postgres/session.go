package postgres

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
)

// A session is one connection with the leases that it carries. One goroutine at a time has its turn on it.
type session struct {
	b        *Backend
	conn     *pgconn.PgConn // whose turn it is uses it
	mark     string         // see markPlace
	server   server
	turn     chan struct{} // holds an element while it is somebody's turn
	broken   atomic.Bool   // the connection was given up
	answered atomic.Bool   // it has been used since it was made
	mint     mint          // whose turn it is uses it
	attended bool          // the pool looks after the end of the request's context; with the turn

	// Guarded by pool.mu.
	holds   map[hash]*hold
	users   int           // who have checked it out
	waits   bool          // it waits in the server's queue
	timeout time.Duration // for how long the server lets it be idle; 0 for ever
	used    time.Time     // when the last request ended
	dead    bool

	// Of the request under way, guarded by pool.mu. See attend.go.
	request uint64          // its number
	asks    context.Context // that of one that ends with it; nil if it does not
	ignore  func() bool     // stops watching that; nil if it is not watched yet
	until   time.Time       // when it must have ended; zero for no limit
	cut     bool            // it was ended: the connection's deadline is over

	watching sync.Mutex // guards what follows
	wanted   int        // how many want the turn
	unwatch  func()     // ends a watch; nil if there is none
}

// A hold is one lease, or the attempt to get one, on a session.
type hold struct {
	s     *session
	h     hash
	owner string
	entry string // of the label

	// Guarded by pool.mu.
	ttl  time.Duration
	life *backend.Life // nil until it is granted
	gone bool          // no longer held
	done bool          // given up, as the server has confirmed
}

// take gets the turn, which ends a watch.
func (s *session) take(ctx context.Context) error {
	s.watching.Lock()
	s.wanted++
	if s.unwatch != nil {
		s.unwatch()
	}
	s.watching.Unlock()
	defer func() {
		s.watching.Lock()
		s.wanted--
		s.watching.Unlock()
	}()
	select {
	case s.turn <- struct{}{}:
	default:
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return backend.ContextError(ctx, nil)
		}
	}
	if s.isBroken() {
		<-s.turn
		return errBroken
	}
	return nil
}

// give ends the turn. A connection that broke meanwhile takes its leases with it.
func (s *session) give() {
	s.leave()
	if s.isBroken() {
		s.b.pool.bury(s)
	} else {
		s.answered.Store(true)
	}
	<-s.turn
}

// A request is made in one turn of a session.
type request struct {
	limit time.Duration                   // how long the server may take before the connection is closed; 0 for no limit
	alone bool                            // nothing else is on the connection, which may be closed when ctx ends
	do    func(ctx context.Context) error // with the turn
	left  func(err error)                 // with the turn, when the caller has left in between
}

// turnFor calls do with the turn, for requests that leave nothing behind when the connection breaks at the end of ctx.
func (s *session) turnFor(ctx context.Context, do func() error) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	return do()
}

// aside calls do with the turn of a session that carries no lease of the caller's, and again with another where one that
// was at rest turns out to have ended before. do can be repeated, and has Options.Timeout.
func (b *Backend) aside(ctx context.Context, do func(s *session) error) error {
	for n := 0; ; n++ {
		s, err := b.pool.checkOut(ctx, nil, false, false)
		if err != nil {
			return err
		}
		used := s.answered.Load()
		err = s.turnFor(ctx, func() error {
			s.attend(ctx, b.options.Timeout, true)
			return do(s)
		})
		b.pool.checkIn(s)
		if err == nil || !used || !neverHeld(err) || n > b.options.MaxLeases {
			return err
		}
	}
}

// make makes a request. The end of ctx interrupts one that is alone. It does not interrupt others, which would break the
// connection and lose its leases: the caller leaves, and the request goes on by itself. Then left is true and the error
// the context's.
func (s *session) make(ctx context.Context, r request) (left bool, err error) {
	if err := s.take(ctx); err != nil {
		return false, err
	}
	s.attend(ctx, r.limit, r.alone)
	if r.alone || ctx.Done() == nil {
		defer s.give()
		return false, r.do(ctx)
	}
	rctx, cancel := context.WithCancel(s.b.base)
	var mu sync.Mutex
	done := make(chan error, 1)
	s.b.calls.Join()
	go func() {
		defer s.b.calls.End()
		defer cancel()
		defer s.give()
		err := r.do(rctx)
		mu.Lock()
		gone := left
		done <- err
		mu.Unlock()
		if gone && r.left != nil {
			r.left(err)
		}
	}()
	select {
	case err := <-done:
		return false, err
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case err := <-done:
		return false, err
	default:
		left = true
		return true, backend.ContextError(ctx, nil)
	}
}

// labelNow is the label of what the session holds.
func (s *session) labelNow(timeout time.Duration) string {
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	entries := make([]string, 0, len(s.holds))
	for _, h := range s.holds {
		entries = append(entries, h.entry)
	}
	return label(timeout, entries)
}

// idleFor is the idle timeout that the session needs: the longest TTL that it holds, with own's as given.
func (s *session) idleFor(own *hold, ttl time.Duration) time.Duration {
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range s.holds {
		if h != own {
			ttl = max(ttl, h.ttl)
		}
	}
	return min(ttl, maxTimeout)
}

// lock asks for h's lock by a try or a wait. It returns token 0 if that is refused.
func (s *session) lock(ctx context.Context, h *hold, st statement) (token uint64, err error) {
	timeout, now := s.idleFor(h, h.ttl), time.Now()
	steps := append(s.adjust(timeout), step{st, []int64{int64(h.h), int64(s.mint.own(now))}})
	row, err := s.run(ctx, s.labelNow(labelTimeout(h.ttl, timeout)), steps...)
	if err != nil {
		s.close() // what it holds is not certain
		return 0, translate(err)
	}
	s.setTimeout(timeout)
	if row[0] == "" {
		return 0, nil
	}
	if token, err = s.mint.token(row[0], now); err != nil {
		s.close() // it has the lock
	}
	return token, err
}

// labelTimeout is what a label tells of a lease's end: nothing where the server's timer is too short for it.
func labelTimeout(ttl, timeout time.Duration) time.Duration {
	if ttl > timeout {
		return 0
	}
	return timeout
}

// adjust is the step that sets the idle timeout, none if it is set already.
func (s *session) adjust(timeout time.Duration) []step {
	const most = 2
	steps := make([]step, 0, most)
	if s.timeout != timeout {
		steps = append(steps, step{stTimeout, []int64{timeout.Milliseconds()}})
	}
	return steps
}

func (s *session) setTimeout(timeout time.Duration) {
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.timeout = timeout
}

// renew starts the idle time anew, with the timeout that h needs from now on.
func (s *session) renew(ctx context.Context, h *hold, ttl time.Duration) error {
	timeout := s.idleFor(h, ttl)
	_, err := s.run(ctx, s.labelNow(labelTimeout(ttl, timeout)), append(s.adjust(timeout), step{statement: stRenew})...)
	if err == nil {
		s.setTimeout(timeout)
	}
	return err
}

// release gives up h's lock. ErrLost means that the session did not have it.
func (s *session) release(ctx context.Context, h *hold) error {
	p := &s.b.pool
	p.mu.Lock()
	shared := len(s.holds) > 1
	p.mu.Unlock()
	text := ""
	if shared {
		text = s.labelNow(s.timeout) // of h too: it does no harm
	}
	row, err := s.run(ctx, text, step{stRelease, []int64{int64(h.h)}})
	if err != nil {
		s.close() // which releases
		return err
	}
	if row[0] != "t" {
		return backend.ErrLost
	}
	return nil
}

// isBroken reports, with the turn, whether the connection is of no more use.
func (s *session) isBroken() bool { return s.broken.Load() || s.conn.IsClosed() }

// close ends the session, with the turn. It is buried at the end of the turn.
func (s *session) close() {
	if s.isBroken() {
		return
	}
	s.broken.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), s.b.options.Timeout)
	defer cancel()
	_ = s.conn.Close(ctx) // it is closed in any case
}

// isDirect reports whether there is no pooler in between: those make up a process id.
func (s *session) isDirect() bool {
	return strconv.FormatUint(uint64(s.conn.PID()), 10) == s.server.pid
}

// abort ends the session, with the turn, while its request may still be running: the server does not look at a connection
// whose statement waits for a lock.
func (s *session) abort() {
	if s.isBroken() {
		return
	}
	s.broken.Store(true)
	direct := s.isDirect()
	s.b.calls.Join()
	go func() {
		defer s.b.calls.End()
		ctx, cancel := context.WithTimeout(s.b.base, s.b.options.Timeout)
		defer cancel()
		if direct {
			_ = s.conn.CancelRequest(ctx)
		}
		_ = s.conn.Close(ctx) // it is closed in any case
	}()
}
