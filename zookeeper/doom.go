package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// A doom is a node that must go. As long as its session lives nothing else would remove it.
type doom struct {
	dir    string
	name   string    // empty if it is not known: a create went unanswered
	prefix string    // of the name then; each create has one of its own
	absent time.Time // since when no such node has been seen
	orphan bool      // its lease was lost
}

// settle is how long a create that went unanswered may still take to arrive behind a look that has not found its node.
const settle = 200 * time.Millisecond

// doom removes a node in the background, until the servers have confirmed it or the session has ended.
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

// tryReap removes d's node and reports whether that is settled.
func (s *session) tryReap(ctx context.Context, d *doom) bool {
	name := d.name
	if name == "" {
		names, err := s.latest(ctx, d.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return isReply(err)
		}
		for _, p := range queueOf(names) {
			if p.prefix == d.prefix {
				name = p.name
			}
		}
	}
	switch {
	case name != "":
		err := s.remove(ctx, d.dir+"/"+name)
		return err == nil || isReply(err)
	case d.absent.IsZero():
		d.absent = time.Now()
	}
	return time.Since(d.absent) >= settle
}
