package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend/kit"
)

// A session is one connection, with the lease that it carries. It belongs to one goroutine at a time, which has its
// turn: to take, renew or release the lease, or, when nobody does, to read from it (watch.go). A goroutine of its own
// for the requests too would cost each of them two changes of goroutine, which is as much as a near server takes to
// answer.
type session struct {
	b      *Backend
	conn   *pgconn.PgConn
	server server
	since  time.Time   // when it had connected
	quiet  *time.Timer // begins a watch

	turn     chan struct{} // holds an element while it is somebody's turn
	answered atomic.Bool   // it has been used since it was made

	mu      sync.Mutex // guards what follows
	wanted  int        // how many wait for the turn
	watched bool       // it is being read from, until somebody wants the turn

	// Guarded by pool.mu.
	held    *held         // who has checked it out; nil if it is idle
	timeout time.Duration // for how long the server lets it be idle; 0 for ever
	dead    bool
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

// give ends the turn. A connection that broke meanwhile takes its lease with it.
func (s *session) give() {
	p := &s.b.pool
	if s.isBroken() {
		p.discard(s)
		<-s.turn
		return
	}
	s.answered.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	<-s.turn // before the watch can begin, which ends where it finds the turn taken
	s.quiet.Reset(p.quiet)
}

// bound makes what is asked from now on end without an answer after limit, or at the end of ctx, until leave is called.
func (s *session) bound(ctx context.Context, limit time.Duration) (leave func()) {
	s.limit(ctx, limit)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.conn.Conn().SetDeadline(longAgo)
		close(done)
	})
	return func() {
		if !stop() {
			<-done // the next request sets a deadline of its own
		}
	}
}

// limit gives what is asked so long from now on, but no time once ctx has ended; 0 is for ever.
func (s *session) limit(ctx context.Context, limit time.Duration) {
	var end time.Time
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	_ = s.conn.Conn().SetDeadline(end)
	if ctx.Err() != nil || s.b.leases.Base().Err() != nil { // whose end may have set a deadline just before
		_ = s.conn.Conn().SetDeadline(longAgo)
	}
}

// request calls do with the turn, and limits what it asks. The end of ctx breaks the connection.
func (s *session) request(ctx context.Context, do func() error) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	defer s.bound(ctx, s.b.options.Timeout)()
	return do()
}

// onFreeSession calls do with the turn of a session that carries no lease, and again with another where one that was at
// rest turns out to have ended before. do can be repeated, and has Options.Timeout.
func (b *Backend) onFreeSession(ctx context.Context, do func(s *session) error) error {
	for n := 0; ; n++ {
		h := &held{query: true, wait: true}
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

// query asks one thing of the server, as onFreeSession does.
func (b *Backend) query(ctx context.Context, sql string, params ...string) (rows [][]string, err error) {
	err = b.onFreeSession(ctx, func(s *session) error {
		rows, err = s.query(sql, params...)
		return err
	})
	return rows, err
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
	locks := s.held != nil && !s.held.query
	b.pool.mu.Unlock()
	if locks {
		b.terminateLater(s.server)
	}
	b.leases.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
		defer cancel()
		_ = s.conn.CancelRequest(ctx)
	})
}
