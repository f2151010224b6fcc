package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// create makes n's node in s; its container, too, if that is missing, as it seems. names are its queue, as of then or later; nil if
// that is to be read. sent is from before the write that proves the node and the session. An error leaves nothing behind: what may be there
// is removed in the background.
//
// A create that loses its connection is looked for by its owner, which its name tells, and counts only if it belongs to
// this very session. (The library's own protected create gives up when the look fails, and does not compare sessions.)
func (s *session) create(ctx context.Context, n *node, missing bool) (names []string, sent time.Time, err error) {
	const attempts = 5 // the servers remove an empty container now and then
	defer func() {
		if err != nil && n.echo {
			s.discard(n)
		}
	}()
	for i := 1; ; i++ {
		made := false
		if missing {
			if made, err = s.makeContainer(ctx, n.dir); err != nil {
				return nil, time.Time{}, err
			}
		}
		names, sent, err = s.createOnce(ctx, n, !missing && !s.b.turns.expects(n.dir))
		switch {
		case err == nil && n.echo:
			// The first create may have arrived after all, before this one. What arrives from now on is behind it.
			_, err = s.recover(ctx, n, errTwice)
			return nil, sent, err
		case err == nil:
			p, ok := parsePlace(n.name)
			if made && ok && p.number == 0 || s.b.turns.follows(n) {
				names = []string{n.name}
			}
			return names, sent, nil
		case errors.Is(err, zk.ErrNoNode) && i < attempts:
			missing = true
		case isReply(err), wasNotSent(err):
			return nil, time.Time{}, err
		default:
			n.echo = true
			found, rerr := s.recover(ctx, n, err)
			switch {
			case rerr != nil:
				return nil, time.Time{}, rerr
			case found:
				sent = time.Now()
				return nil, sent, s.check(ctx, n.path())
			case i == attempts:
				return nil, time.Time{}, err
			}
		}
	}
}

// createOnce sends the create; and, if look, a look at the queue behind it in the same round trip, most likely: it counts if it shows
// the node.
func (s *session) createOnce(ctx context.Context, n *node, look bool) (names []string, sent time.Time, err error) {
	type made struct {
		path string
		zxid uint64
	}
	ask := n.dir + "/" + n.prefix
	looked := make(chan []string, 1)
	m, sent, err := await(ctx, s, request[made]{
		grace: answerGrace,
		late: func(_ made, err error) {
			if err == nil {
				s.doom(&doom{dir: n.dir, prefix: n.prefix})
			}
		},
		do: func(c *zk.Conn) (made, error) {
			written := s.writes(ask)
			defer s.wrote(ask)
			look = look && s.b.calls.Background(func() {
				<-written
				names, _, _ := c.Children(n.dir)
				looked <- names
			})
			path, err := c.Create(ask, record(0, n.owner), zk.FlagEphemeralSequential, s.b.acl)
			return made{path, s.tokenOf(path)}, err
		},
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(m.path) <= len(ask) {
		return nil, time.Time{}, fmt.Errorf("zookeeper created %q for %q", m.path, ask)
	}
	n.name = m.path[len(n.dir)+1:]
	n.czxid.Store(m.zxid)
	s.contact.proved(sent)
	if look {
		t := time.NewTimer(s.b.options.Timeout)
		defer t.Stop()
		select {
		case names = <-looked:
		case <-t.C:
		case <-s.over:
		case <-ctx.Done():
		}
	}
	if !slices.Contains(names, n.name) {
		names = nil
	}
	return names, sent, nil
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
		names, lerr := s.latest(ctx, n.dir)
		switch {
		case lerr == nil || errors.Is(lerr, zk.ErrNoNode):
			name, zxid, serr := s.ours(ctx, n, names)
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
func (s *session) ours(ctx context.Context, n *node, names []string) (name string, zxid uint64, err error) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	for _, p := range queueOf(names) {
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
