package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend/kit"
)

// A session is one connection, with the lease that it carries. One goroutine at a time may use it: the one that has the
// turn. That goroutine acquires, renews or releases the lease. While there is no request, a watcher has the turn and
// reads from the connection (watch.go). A session has no goroutine for its requests: that would add two goroutine
// switches to each request, which take as long as the reply of a nearby server.
type session struct {
	b          *Backend
	conn       *pgconn.PgConn
	server     server
	since      time.Time   // when the connection was established
	watchTimer *time.Timer // starts a watch

	turn     chan struct{} // holds an element while a goroutine has the turn
	answered atomic.Bool   // the session has been used before

	mu          sync.Mutex // guards turnWaiters and watched
	turnWaiters int        // number of goroutines that wait for the turn
	watched     bool       // a watcher reads from the connection, until another goroutine wants the turn

	// Guarded by pool.mu.
	held    *checkout     // the lease, attempt or query that has checked it out; nil if idle
	timeout time.Duration // idle timeout at the server; 0 means none
	dead    bool
}

// acquireTurn waits for the turn, and interrupts a watch.
func (s *session) acquireTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	default:
		s.addTurnWaiters(1)
		defer s.addTurnWaiters(-1)
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

// addTurnWaiters adds n to turnWaiters, and interrupts a watch.
func (s *session) addTurnWaiters(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turnWaiters += n
	if s.watched {
		_ = s.conn.Conn().SetReadDeadline(longAgo)
	}
}

// releaseTurn ends the turn. If the connection has broken, releaseTurn discards the session, and the lease is lost.
func (s *session) releaseTurn() {
	p := &s.b.pool
	if s.isBroken() {
		p.discard(s)
		<-s.turn
		return
	}
	s.answered.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	<-s.turn // before the timer: a watch ends at once if the turn is taken
	s.watchTimer.Reset(p.watchAfter)
}

// bound limits requests until leave is called: they fail after limit, or when ctx ends. 0 means no limit.
func (s *session) bound(ctx context.Context, limit time.Duration) (leave func()) {
	s.limit(ctx, limit)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.conn.Conn().SetDeadline(longAgo)
		close(done)
	})
	return func() {
		if !stop() {
			<-done // otherwise longAgo could replace the next request's deadline
		}
	}
}

// limit sets the connection's deadline to limit from now; 0 means no deadline. If ctx has already ended, pending
// requests fail at once.
func (s *session) limit(ctx context.Context, limit time.Duration) {
	var end time.Time
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	_ = s.conn.Conn().SetDeadline(end)
	if ctx.Err() != nil || s.b.leases.Base().Err() != nil { // longAgo may have been set just before
		_ = s.conn.Conn().SetDeadline(longAgo)
	}
}

// request calls do with the turn, and limits its requests to Options.Timeout. If ctx ends meanwhile, the connection
// breaks.
func (s *session) request(ctx context.Context, do func() error) error {
	if err := s.acquireTurn(ctx); err != nil {
		return err
	}
	defer s.releaseTurn()
	defer s.bound(ctx, s.b.options.Timeout)()
	return do()
}

// onFreeSession calls do with the turn of a session that carries no lease. If the session had been used before and has
// ended, onFreeSession repeats do on another session. do must be safe to repeat. Each call has Options.Timeout.
func (b *Backend) onFreeSession(ctx context.Context, do func(s *session) error) error {
	for n := 0; ; n++ {
		h := &checkout{query: true, wait: true}
		s, err := b.pool.checkOut(ctx, h)
		used := err == nil && s.answered.Load()
		if err == nil {
			err = s.request(ctx, func() error { return do(s) })
		}
		b.pool.drop(h)
		if err == nil || !used || !neverHeld(err) || n > b.options.MaxLeases {
			return err
		}
	}
}

// query runs one query, as onFreeSession does.
func (b *Backend) query(ctx context.Context, sql string, params ...string) (rows [][]string, err error) {
	err = b.onFreeSession(ctx, func(s *session) error {
		rows, err = s.query(sql, params...)
		return err
	})
	return rows, err
}

// isBroken reports whether the connection is closed. The caller must have the turn.
func (s *session) isBroken() bool { return s.conn.IsClosed() }

// close closes the connection. The caller must have the turn; releaseTurn then discards the session.
func (s *session) close() {
	if s.isBroken() {
		return
	}
	_ = s.conn.Conn().SetDeadline(time.Now().Add(s.b.options.Timeout)) // the last request's deadline has passed
	_ = s.conn.Close(context.Background())                             // Close closes the connection even if it fails
}

// abort closes the session while its request may still be running. The server may not notice that, because it does not
// read from a connection whose statement waits for a lock. So abort also cancels the statement. In case the
// cancellation does not arrive, it later terminates a session that may hold a lock.
func (s *session) abort() {
	s.close()
	b := s.b
	b.pool.mu.Lock()
	locks := s.held != nil && !s.held.query
	b.pool.mu.Unlock()
	if locks {
		b.terminateLater(s.server.session)
	}
	b.leases.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithValue(ctx, ourDial{}, true), b.options.Timeout)
		defer cancel()
		_ = s.conn.CancelRequest(ctx)
	})
}
