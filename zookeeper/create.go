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
	var path string
	switch {
	case withDir:
		path, sent, err = s.createBoth(ctx, n, ask)
	case s.b.turns.expects(n.dir):
		path, sent, err = s.createAlone(ctx, n, ask)
	default:
		path, l, fresh, sent, err = s.createAndLook(ctx, n, ask)
	}
	if err != nil {
		return listing{}, false, time.Time{}, err
	}
	if len(path) <= len(n.dir)+1 {
		return listing{}, false, time.Time{}, fmt.Errorf("zookeeper created %q for %q", path, ask)
	}
	n.name = path[len(n.dir)+1:]
	s.contact.proved(sent)
	if s.b.turns.follows(n) || withDir {
		l, fresh = listing{names: []string{n.name}}, true
	}
	return l, fresh, sent, nil
}

// createBoth makes n's container and its node, by one write.
func (s *session) createBoth(ctx context.Context, n *node, ask string) (path string, sent time.Time, err error) {
	return await(ctx, s, request[string]{
		limit: s.b.options.Timeout,
		grace: answerGrace,
		late: func(_ string, err error) {
			if err == nil {
				s.forsake(n)
			}
		},
		do: func(c *zk.Conn) (string, error) {
			return createBoth(c, n.dir, ask, record(0, n.owner), s.b.acl)
		},
	})
}

// createAndLook makes n's node, and lists the queue behind it.
func (s *session) createAndLook(ctx context.Context, n *node, ask string) (
	path string, l listing, fresh bool, sent time.Time, err error,
) {
	look := childrenCall(n.dir)
	path, q, err := s.createBefore(ctx, n, ask, look)
	if err != nil {
		return "", listing{}, false, time.Time{}, err
	}
	looked, err := q.wait(ctx, look)
	if err == nil {
		l.names, err = looked.children()
	}
	return path, l, err == nil, q.sent, nil
}

// createAlone makes n's node, without a look.
func (s *session) createAlone(ctx context.Context, n *node, ask string) (path string, sent time.Time, err error) {
	path, q, err := s.createBefore(ctx, n, ask)
	if err != nil {
		return "", time.Time{}, err
	}
	return path, q.sent, nil
}

// createBefore makes n's node, and makes more calls right behind it.
func (s *session) createBefore(ctx context.Context, n *node, ask string, more ...*call) (
	path string, q *posted, err error,
) {
	create := createCall(ask, record(0, n.owner), s.b.acl)
	create.late = func(a answer) {
		if a.err == nil {
			s.forsake(n)
		}
	}
	if q, err = s.post(ctx, answerGrace, append([]*call{create}, more...)...); err != nil {
		return "", nil, err
	}
	made, err := q.wait(ctx, create)
	if err != nil {
		return "", nil, err
	}
	n.czxid.Store(made.zxid)
	return framePath(made.body), q, nil
}

// forsake removes what n's create has made, for which nobody has waited.
func (s *session) forsake(n *node) { s.doom(&doom{dir: n.dir, prefix: n.prefix}) }

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
