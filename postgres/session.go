package postgres

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A session is one connection with the leases that it carries. It belongs to one goroutine at a time, which has its
// turn: to take, renew or release a lease, or, when nobody does, to read from it (watch.go). A goroutine of its own for
// the requests too would cost each of them two changes of goroutine, which is as much as a near server takes to answer.
type session struct {
	b      *Backend
	conn   *pgconn.PgConn
	server server
	since  time.Time   // when it had connected
	quiet  *time.Timer // begins a watch

	turn     chan struct{} // holds an element while it is somebody's turn
	answered atomic.Bool   // it has been used since it was made

	// Of whose turn it is.
	ignore func() bool // stops watching the request's context; nil if that is not watched
	over   *held       // goes at the end of the turn

	mu      sync.Mutex      // guards what follows
	ended   <-chan struct{} // what is asked in this turn ends with it, without an answer
	wanted  int             // how many wait for the turn
	watched bool            // it is being read from, until somebody wants the turn

	// Guarded by pool.mu.
	holds   map[hash]*held
	lent    bool          // it is used to look around
	waits   bool          // it waits in the server's queue
	timeout time.Duration // for how long the server lets it be idle; 0 for ever
	dead    bool
}

// held is one lease, or the attempt to get one, on a session.
type held struct {
	s     *session
	h     hash
	owner string
	entry string // of the label
	// shared is the mode of the lock. Each lease needs a session of its own, as seatLocked provides: the server grants
	// a session any lock that conflicts only with locks of the same session.
	shared bool

	// Guarded by pool.mu.
	ttl     time.Duration
	life    *kit.Life // nil until it is granted
	gone    bool      // no longer held
	counted bool      // in pool.carried
}

// take gets the turn, which ends a watch.
func (s *session) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	default:
		s.want(1)
		defer s.want(-1)
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return kit.ContextError(ctx, nil)
		}
	}
	if s.isBroken() {
		<-s.turn
		return errBroken
	}
	return nil
}

func (s *session) want(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted += n
	if s.watched {
		_ = s.conn.Conn().SetReadDeadline(longAgo)
	}
}

// give ends the turn. A connection that broke meanwhile takes its leases with it.
func (s *session) give() {
	s.leave()
	p, over := &s.b.pool, s.over
	s.over = nil
	if s.isBroken() {
		p.bury(s)
		<-s.turn
	} else {
		s.answered.Store(true)
		p.mu.Lock()
		<-s.turn // before the watch can begin, which ends where it finds the turn taken
		s.quiet.Reset(p.quiet)
		p.mu.Unlock()
	}
	if over != nil {
		p.drop(over)
	}
}

// bound makes what is asked from now on end without an answer at the end of ctx, and after limit unless that is 0.
func (s *session) bound(ctx context.Context, limit time.Duration) {
	ended := ctx.Done()
	s.mu.Lock()
	s.ended = ended
	s.mu.Unlock()
	s.limit(limit)
	s.ignore = context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ended == ended { // not another turn's
			_ = s.conn.Conn().SetDeadline(longAgo)
		}
	})
}

// limit gives what is asked so long from now on; 0 is for ever.
func (s *session) limit(limit time.Duration) {
	var end time.Time
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		end = longAgo
	case <-s.b.leases.Base().Done():
		end = longAgo
	default:
	}
	_ = s.conn.Conn().SetDeadline(end)
}

// leave ends what bound has begun.
func (s *session) leave() {
	if s.ignore != nil {
		s.ignore()
		s.ignore = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = nil
}

// A request is made in one turn of a session.
type request struct {
	limit   time.Duration // how long the server may take before the connection is closed; 0 for no limit
	alone   bool          // nothing else is on the connection, which may be closed when ctx ends
	limited bool          // ctx ends as limit does, or with Close, so that it need not be watched
	do      func() error  // with the turn
}

// make makes a request. The end of ctx interrupts a request that is alone. It does not interrupt a renewal, which would
// break the connection and lose the lease: the request continues in the background, and the error is the context's.
func (s *session) make(ctx context.Context, r request) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	if r.alone || ctx.Done() == nil {
		defer s.give()
		if r.alone && r.limited {
			s.limit(r.limit)
		} else {
			s.bound(ctx, r.limit)
		}
		return r.do()
	}
	done, gone := make(chan error), make(chan struct{})
	if !s.b.leases.Go(func(context.Context) {
		defer s.give()
		s.limit(r.limit)
		err := r.do()
		select {
		case done <- err:
		case <-gone:
		}
	}) {
		s.give()
		return backend.ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		close(gone)
		return kit.ContextError(ctx, nil)
	}
}

// onFreeSession calls do with the turn of a session that carries no lease of the caller's, and again with another where
// one that was at rest turns out to have ended before. do can be repeated, and has Options.Timeout.
func (b *Backend) onFreeSession(ctx context.Context, do func(s *session) error) error {
	for n := 0; ; n++ {
		s, err := b.pool.checkOut(ctx, &order{})
		if err != nil {
			return err
		}
		used := s.answered.Load()
		err = s.make(ctx, request{limit: b.options.Timeout, alone: true, do: func() error { return do(s) }})
		b.pool.giveBack(s)
		if err != nil && kit.Ended(ctx) {
			return kit.ContextError(ctx, err)
		}
		if err == nil || !used || !neverHeld(err) || n > b.options.MaxLeases {
			return err
		}
	}
}

// query asks one thing of the server, as onFreeSession does.
func (b *Backend) query(ctx context.Context, sql string, params ...string) (rows [][]string, err error) {
	err = b.onFreeSession(ctx, func(s *session) error {
		rows, err = s.query(sql, params...)
		return err
	})
	return rows, err
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

// lock asks for h's lock by a try or a wait. It returns token 0 if that is refused.
func (s *session) lock(h *held, st statement) (token uint64, err error) {
	if h.shared {
		st += stTryShared - stTry
	}
	timeout, now, mint := min(h.ttl, maxTimeout), time.Now(), &s.b.mint
	own := mint.begin(h.h, now, s.since)
	defer mint.end(h.h)
	row, err := s.run(s.labelNow(timeout), timeout, st, int64(h.h), int64(own.short()))
	if err == nil && row[0] != "" {
		token, err = mint.token(row[0], own, now)
	}
	if err != nil {
		s.close() // what it holds is not certain
	}
	return token, err
}

func (s *session) setTimeout(timeout time.Duration) {
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.timeout = timeout
}

// renew starts the idle time anew, with the timeout ttl.
func (s *session) renew(ttl time.Duration) error {
	timeout := min(ttl, maxTimeout)
	_, err := s.run(s.labelNow(timeout), timeout, stRenew)
	return err
}

// release gives up h's lock. ErrLost means that the session did not have it.
func (s *session) release(h *held) error {
	var unlock uint32 = pgAdvisoryUnlock
	if h.shared {
		unlock = pgAdvisoryUnlockShared // the other function would report that the session has no such lock
	}
	row, err := s.call(unlock, int64(h.h))
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
func (s *session) isBroken() bool { return s.conn.IsClosed() }

// close ends the session, with the turn. It is buried at the end of the turn.
func (s *session) close() {
	if s.isBroken() {
		return
	}
	_ = s.conn.Conn().SetDeadline(time.Now().Add(s.b.options.Timeout)) // the last request's has passed
	_ = s.conn.Close(context.Background())                             // it is closed in any case
}

// abort ends the session while its request may still be running: the server does not look at a connection whose
// statement waits for a lock. The server may not hear of the end either.
func (s *session) abort() {
	s.close()
	b := s.b
	b.pool.mu.Lock()
	holds := len(s.holds) > 0
	b.pool.mu.Unlock()
	if holds { // or it has no lock
		b.terminateLater(s.server)
	}
	b.leases.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
		defer cancel()
		_ = s.conn.CancelRequest(ctx)
	})
}

// wire is the connection beneath its encryption.
func (s *session) wire() net.Conn {
	c := s.conn.Conn()
	if enc, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = enc.NetConn()
	}
	return c
}

// lostOr is err, or ErrLost where the connection has ended with it, and every lease on it.
func (s *session) lostOr(err error) error {
	if s.isBroken() || endedByServer(err) {
		return fmt.Errorf("%w: %w", backend.ErrLost, err)
	}
	return err
}
