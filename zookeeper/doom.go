package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend/kit"
)

// A doom is a node that must go. As long as its session lives nothing else would remove it.
type doom struct {
	dir    string
	name   string // empty if it is not known: a create went unanswered
	prefix string // of the name then; each create has one of its own
	orphan bool   // its lease was lost

	// Of whoever removes it.
	absent  time.Time // since when no such node has been seen
	settled bool
}

// settle is how long a create that went unanswered may still take to arrive behind a look that has not found its node.
const settle = 200 * time.Millisecond

// doom removes a node in the background, until the servers have confirmed it or the session has ended.
func (s *session) doom(d *doom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.doomed[d] = struct{}{}
	if len(s.doomed) == 1 {
		s.b.calls.Background(s.reap)
	}
}

const reapAtOnce = 64 // the library sends them in one go

// reap removes what is doomed. It ends when nothing is left.
func (s *session) reap() {
	ctx := context.Background()
	pause := kit.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	for batch := s.nextDoomed(nil); len(batch) > 0; {
		var wg sync.WaitGroup
		for _, d := range batch {
			wg.Go(func() { d.settled = s.tryReap(ctx, d) })
		}
		wg.Wait()
		left := slices.ContainsFunc(batch, func(d *doom) bool { return !d.settled })
		batch = s.nextDoomed(batch)
		if left {
			_ = s.sleep(ctx, pause.Next(0))
		} else {
			pause.Reset()
		}
	}
}

// nextDoomed drops what is settled of those that were tried, and returns what to try next. If that is nothing, reap ends.
func (s *session) nextDoomed(tried []*doom) (next []*doom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range tried {
		if d.settled {
			delete(s.doomed, d)
		}
	}
	if s.err != nil {
		clear(s.doomed)
	}
	for d := range s.doomed {
		if len(next) < reapAtOnce {
			next = append(next, d)
		}
	}
	return next
}

// tryReap removes d's node and reports whether that is settled.
func (s *session) tryReap(ctx context.Context, d *doom) bool {
	name := d.name
	if name == "" {
		names, err := s.latest(ctx, d.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return isReply(err)
		}
		for _, p := range placesOf(names) {
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
