package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// create makes n's node in s, and lists the queue behind it in the same round trip. fresh tells that the listing is there.
// sent is from before the write that proves the node and the session. An error leaves nothing behind: what may be there
// is removed in the background.
//
// A create that loses its connection is looked for by its owner, which its name tells, and counts only if it belongs to
// this very session. (The library's own protected create gives up when the look fails, and does not compare sessions.)
func (s *session) create(ctx context.Context, n *node) (l listing, fresh bool, sent time.Time, err error) {
	const attempts = 5 // the servers remove an empty container now and then
	for i := 1; ; i++ {
		withDir := s.b.dirs.isMissing(n.dir)
		l, fresh, sent, err = s.createOnce(ctx, n, withDir)
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			s.b.dirs.found(n.dir, withDir && err == nil)
		}
		switch {
		case err == nil && n.echo:
			// The first create may have arrived after all, before this one. What arrives from now on is behind it.
			if _, err = s.recover(ctx, n, errTwice); err != nil {
				s.discard(n)
			}
			return listing{}, false, sent, err
		case err == nil:
			return l, fresh, sent, nil
		case errors.Is(err, zk.ErrNoNode) && i < attempts:
			s.b.dirs.missed(n.dir)
			if !withDir {
				continue
			}
			if err := s.makeRoot(ctx); err != nil {
				s.discardIfEcho(n)
				return listing{}, false, time.Time{}, err
			}
		case errors.Is(err, zk.ErrNodeExists) && withDir && i < attempts:
		case isReply(err), wasNotSent(err):
			s.discardIfEcho(n)
			return listing{}, false, time.Time{}, err
		default:
			n.echo = true
			found, rerr := s.recover(ctx, n, err)
			if rerr != nil {
				s.discardIfEcho(n)
				return listing{}, false, time.Time{}, rerr
			}
			if found {
				sent = time.Now()
				if err := s.check(ctx, n.path()); err != nil {
					s.discardIfEcho(n)
					return listing{}, false, time.Time{}, err
				}
				return listing{}, false, sent, nil
			}
			if i == attempts {
				s.discardIfEcho(n)
				return listing{}, false, time.Time{}, err
			}
		}
	}
}

func (s *session) discardIfEcho(n *node) {
	if n.echo {
		s.discard(n)
	}
}

// createOnce sends the create, and the look at the queue right behind it. With its directory, which must be missing then,
// it is the first in the queue, and there is nothing to look at.
func (s *session) createOnce(ctx context.Context, n *node, withDir bool) (
	l listing, fresh bool, sent time.Time, err error,
) {
	ask := n.dir + "/" + n.prefix
	n.written = &mark{made: make(chan struct{})}
	s.mu.Lock()
	s.pending[ask] = n
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		if s.pending[ask] == n {
			delete(s.pending, ask)
		}
		s.mu.Unlock()
	}()
	type created struct {
		name string
		sent time.Time
		err  error
	}
	done := make(chan created, 1)
	go func() {
		path, sent, err := await(ctx, s, request[string]{
			limit: s.b.options.Timeout,
			grace: answerGrace,
			late: func(path string, err error) {
				if err == nil {
					s.doom(&doom{dir: n.dir, prefix: n.prefix})
				}
			},
			do: func(c *zk.Conn) (string, error) {
				if withDir {
					return createBoth(c, n.dir, ask, record(0, n.owner), s.b.acl)
				}
				return c.Create(ask, record(0, n.owner), zk.FlagEphemeralSequential, s.b.acl)
			},
		})
		done <- created{path, sent, err}
	}()
	written := n.written.made
	if withDir {
		written = nil
	}
	var c created
	select {
	case c = <-done:
	case <-written:
		l, err = s.children(ctx, n.dir)
		fresh = err == nil
		c = <-done
	}
	if c.err != nil {
		return listing{}, false, time.Time{}, c.err
	}
	if len(c.name) <= len(n.dir)+1 {
		return listing{}, false, time.Time{}, fmt.Errorf("zookeeper created %q for %q", c.name, ask)
	}
	n.name = c.name[len(n.dir)+1:]
	s.contact.proved(c.sent)
	if withDir {
		return listing{names: []string{n.name}}, true, c.sent, nil
	}
	return l, fresh, c.sent, nil
}

var errTwice = errors.New("a node was created twice, and is not there")

// recover looks for the node of a create that went unanswered with err. found is false when it was certainly not made.
func (s *session) recover(ctx context.Context, n *node, err error) (found bool, _ error) {
	if cerr := backend.ContextError(ctx, err); cerr != nil {
		return false, cerr
	}
	if errors.Is(err, errNoAnswer) { // it may still be on its way
		return false, err
	}
	var absent time.Time
	pause := backend.Pause{Min: 20 * time.Millisecond, Max: settle}
	for end := time.Now().Add(s.b.options.Timeout); ; {
		l, lerr := s.latest(ctx, n.dir)
		switch {
		case lerr == nil || errors.Is(lerr, zk.ErrNoNode):
			name, zxid, serr := s.ours(ctx, n, l)
			if serr == nil && name != "" {
				n.name = name
				n.czxid.Store(zxid)
				return true, nil
			}
			if serr == nil && absent.IsZero() {
				absent = time.Now()
			} else if serr == nil && time.Since(absent) >= settle {
				return false, nil
			}
		case s.isOver():
			return false, s.reason()
		case backend.Ended(ctx):
			return false, backend.ContextError(ctx, err)
		}
		if time.Now().After(end) {
			return false, err
		}
		if serr := s.sleep(ctx, pause.Next(0)); serr != nil {
			return false, serr
		}
	}
}

// ours finds the node of n's owner that belongs to this session, the first in the queue. One with the same name of
// another session is not ours: it will be gone when that has expired.
func (s *session) ours(ctx context.Context, n *node, l listing) (name string, zxid uint64, err error) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	for _, p := range queueOf(l.names) {
		if p.prefix != n.prefix {
			continue
		}
		st, err := s.exists(ctx, n.dir+"/"+p.name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return "", 0, err
		}
		if st.EphemeralOwner == id {
			return p.name, uint64(st.Czxid), nil
		}
	}
	return "", 0, nil
}
