package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

var errIdle = errors.New("the session was not in use")

// idleTime is how long a session without leases and requests is kept.
const idleTime = 30 * time.Second

// usualTTL is that of package lock when nobody says otherwise.
const usualTTL = 30 * time.Second

// prepare opens the session that is most likely to be asked for, and makes sure of the node that has all locks.
func (b *Backend) prepare(ctx context.Context) error {
	s, err := b.enter(b.limits.session(usualTTL))
	if err != nil {
		return err
	}
	defer b.leave(s)
	// The server that is tried first may hang for as long as a request may take.
	for end := time.Now().Add(openTimeout); ; {
		err = s.checkContainers(ctx)
		if !errors.Is(err, backend.ErrUnavailable) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return err
	}
	if _, err = s.exists(ctx, b.root); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return s.makeRoot(ctx)
}

// enter returns the session of a class, which it opens if there is none, and counts the caller as its user. Once Close has begun, it
// refuses everybody: Close waits for those that are in.
func (b *Backend) enter(class time.Duration) (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosing() {
		return nil, backend.ErrClosed
	}
	if s := b.sessions[class]; s != nil && !s.isOver() { // else it is about to be forgotten
		b.useLocked(s)
		return s, nil
	}
	s := newSession(b, class)
	if err := s.open(); err != nil {
		return nil, err
	}
	b.sessions[class] = s
	b.useLocked(s)
	return s, nil
}

// enterAny is enter for a request that any session can make: it opens one only if there is none.
func (b *Backend) enterAny(class time.Duration) (*session, error) {
	b.mu.Lock()
	if b.sessions[class] == nil {
		for _, other := range b.sessions {
			if !other.isOver() {
				class = other.class
			}
		}
	}
	b.mu.Unlock()
	return b.enter(class)
}

func (b *Backend) useLocked(s *session) {
	s.users++
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

// leave is the opposite of enter. A session that nobody uses any more is closed after a while.
func (b *Backend) leave(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.users--
	if s.users > 0 || b.sessions[s.class] != s || b.shut {
		return
	}
	s.idle = time.AfterFunc(b.idle, func() {
		b.mu.Lock()
		unused := s.users == 0 && b.sessions[s.class] == s
		if unused {
			delete(b.sessions, s.class)
		}
		b.mu.Unlock()
		if unused {
			s.die(errIdle)
		}
	})
}

// forget drops a session that is over, so that the next one to enter opens another.
func (b *Backend) forget(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[s.class] == s {
		delete(b.sessions, s.class)
	}
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}
