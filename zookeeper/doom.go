package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// A doom is a node, or all nodes of one owner, that must go. As long as its session lives nothing else would remove it.
type doom struct {
	dir, prefix string
	name        string    // empty for all nodes with the prefix: a create went unanswered
	absent      time.Time // since when none has been seen
	orphan      bool      // its lease was lost
}

// settle is how long a create that went unanswered may still take to arrive behind a look that has not found its node.
const settle = 200 * time.Millisecond

// discard removes a node in the background, until the servers have confirmed it or the session has ended.
func (s *session) discard(n *node) { s.doom(doomOf(n)) }

func doomOf(n *node) *doom {
	d := &doom{dir: n.dir, prefix: n.prefix}
	if !n.echo {
		d.name = n.name
	}
	return d
}

func (s *session) doom(d *doom) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.doomed = append(s.doomed, d)
	if d.orphan {
		s.orphans++
	}
	start := !s.reaping
	s.reaping = true
	s.mu.Unlock()
	if start {
		s.b.calls.Background(s.reap)
	}
}

const reapAtOnce = 64 // the library sends them in one go

// reap removes what is doomed. It ends when nothing is left.
func (s *session) reap() {
	ctx := context.Background()
	pause := backend.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		s.mu.Lock()
		if len(s.doomed) == 0 || s.err != nil {
			s.doomed, s.reaping = nil, false
			s.mu.Unlock()
			return
		}
		batch := s.doomed
		if len(batch) > reapAtOnce {
			batch = batch[:reapAtOnce]
		}
		s.doomed = s.doomed[len(batch):]
		s.mu.Unlock()
		done := make(chan *doom, len(batch))
		for _, d := range batch {
			go func() {
				if s.tryReap(ctx, d) {
					s.reaped(d)
					d = nil
				}
				done <- d
			}()
		}
		var again []*doom
		for range batch {
			if d := <-done; d != nil {
				again = append(again, d)
			}
		}
		if len(again) == 0 {
			pause.Reset()
			continue
		}
		s.mu.Lock()
		s.doomed = append(s.doomed, again...)
		s.mu.Unlock()
		_ = s.sleep(ctx, pause.Next(0))
	}
}

// reaped notes that d is settled.
func (s *session) reaped(d *doom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.orphan {
		s.orphans--
	}
}

// tryReap removes d's nodes and reports whether that is settled.
func (s *session) tryReap(ctx context.Context, d *doom) bool {
	if d.name != "" {
		err := s.remove(ctx, d.dir+"/"+d.name)
		return err == nil || isReply(err)
	}
	names, err := s.latest(ctx, d.dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return isReply(err)
	}
	found := false
	for _, p := range queueOf(names) {
		if p.prefix == d.prefix {
			found = true
			_ = s.remove(ctx, d.dir+"/"+p.name)
		}
	}
	switch {
	case found:
		d.absent = time.Time{}
	case d.absent.IsZero():
		d.absent = time.Now()
	default:
		return time.Since(d.absent) >= settle
	}
	return false
}
