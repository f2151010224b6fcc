package zookeeper

import (
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// keepAlive gives signs of life while the session lives, and leaves a server that does not answer them. The library's own
// pings are a third of the timeout apart, too far to count on. It also looks after leases that are longer than the session:
// they live for as long as the ensemble is known to keep it.
func (s *session) keepAlive() {
	beat := s.b.limits.beat(s.class)
	t := time.NewTimer(beat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.over:
			return
		}
		if w, unanswered := s.beat(); unanswered > s.kickAfter() {
			_ = w.Conn.Close() // the library goes on to the next server
		}
		t.Reset(min(beat, s.lookAfterLong()))
	}
}

// beat gives a sign of life, if there is a connection, and reports for how long one has been without an answer and nothing else has come.
func (s *session) beat() (w *wire, unanswered time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.connected {
		return nil, 0
	}
	conn, sent := s.conn, time.Now()
	s.b.calls.Background(func() {
		_, _, err := conn.Exists(s.b.root)
		if err == nil || isReply(err) {
			s.contact.touched(sent)
		}
	})
	return s.wire, s.wire.unanswered(sent)
}

// kickAfter is how long a server may leave a sign of life without an answer.
func (s *session) kickAfter() time.Duration {
	const least, most = 500 * time.Millisecond, 4 * time.Second
	return min(max(s.class/6, least), most)
}

// lookAfterLong sees to the leases that live for longer than the ensemble is known to keep the session: it loses them when it may have
// expired, and proves it to be alive in time. It returns when to look again.
func (s *session) lookAfterLong() time.Duration {
	s.mu.Lock()
	var lives []*kit.Life
	for n := range s.nodes {
		if home, _ := n.home(); home == s && n.lease() != nil { // not those that are on their way here
			lives = append(lives, n.lease())
		}
	}
	timeout := s.timeout
	s.mu.Unlock()
	left, now := timeout+time.Second, time.Now() // before the claim: a renewal may go on meanwhile
	claim := s.contact.claim(s.b.guarantees.MaxSilence)
	d := claim.Sub(now)
	for _, l := range lives {
		switch {
		case !l.Deadline().After(claim):
		case d > 0:
			left = d
		default:
			l.Lose() // unless it is over already: then there is nothing to hurry for
		}
	}
	if left < s.b.limits.capacity(timeout)*2/3 && s.proving.CompareAndSwap(false, true) {
		s.b.calls.Background(func() {
			defer s.proving.Store(false)
			_ = s.prove(context.Background())
		})
	}
	return left
}

// prove makes a write that changes nothing, to learn that the ensemble keeps the session.
func (s *session) prove(ctx context.Context) error {
	return s.check(ctx, s.b.root)
}

// secure makes sure that the ensemble keeps the session until end, at least. It takes up to a hop when the last sign of
// life is too old, and fails when none comes.
func (s *session) secure(ctx context.Context, end time.Time, prove func(ctx context.Context) error) error {
	pause := s.b.limits.tick / 8
	for last := time.Now().Add(s.b.options.Timeout + s.b.limits.hop()); s.contact.bound().Before(end); {
		if time.Now().After(last) {
			return errNoAnswer
		}
		at, ok := s.contact.provable(end)
		wait := time.Until(at)
		if !ok {
			wait = pause
		}
		if wait > 0 {
			if err := s.sleep(ctx, wait); err != nil {
				return err
			}
		}
		if !ok {
			continue
		}
		if err := prove(ctx); err != nil {
			return err
		}
	}
	return nil
}
