package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend/kit"
)

// create makes n's node in s; its container, too, if that is missing, as it seems. names are its queue, as of then or later; nil if
// that is to be read. sent is from before the write that proves the node and the session. An error leaves nothing behind: what may be there
// is removed in the background.
//
// Nobody tells whether a create has arrived whose connection broke. What it may have made is removed before the next one is sent, which
// would queue behind it. So a node counts only if its own create was answered. (The library's protected create takes what it finds
// for its own: it gives up when the look fails, and does not compare sessions.)
func (s *session) create(ctx context.Context, n *node, missing bool) (names []string, sent time.Time, err error) {
	const attempts = 5 // the servers remove an empty container now and then
	for i := 1; ; i++ {
		made := false
		if missing {
			if made, err = s.makeContainer(ctx, n.dir); err != nil {
				return nil, time.Time{}, err
			}
		}
		names, sent, err = s.createOnce(ctx, n, !missing && !s.b.turns.expects(n.dir))
		switch {
		case err == nil:
			if made && n.number == 0 || isOrdered(n.number) && s.b.turns.follows(n) {
				names = []string{n.name}
			}
			return names, sent, nil
		case errors.Is(err, zk.ErrNoNode) && i < attempts:
			missing = true
			continue
		case isReply(err), wasNotSent(err):
			return nil, time.Time{}, err
		}
		stray := &doom{dir: n.dir, prefix: n.prefix}
		if i < attempts {
			err = s.removeStray(ctx, stray, err)
		}
		if err != nil && !errors.Is(s.reason(), errExpired) || !stray.absent.IsZero() {
			n.stray = true
		}
		if err != nil {
			s.doom(stray)
			return nil, time.Time{}, err
		}
		n.prefix = nodePrefix(n.owner)
	}
}

// removeStray removes what a create that went unanswered with err may have made. It fails if that may still be on its way.
func (s *session) removeStray(ctx context.Context, stray *doom, err error) error {
	if errors.Is(err, errNoAnswer) {
		return err
	}
	pause := kit.Pause{Min: 20 * time.Millisecond, Max: settle}
	for end := time.Now().Add(s.b.options.Timeout); ; {
		if cerr := kit.ContextError(ctx, err); cerr != nil {
			return cerr
		}
		if s.tryReap(ctx, stray) {
			break
		}
		if time.Now().After(end) {
			return err
		}
		if serr := s.sleep(ctx, pause.Next(0)); serr != nil {
			return serr
		}
	}
	if !stray.absent.IsZero() {
		time.AfterFunc(stragglers, func() { s.doom(stray) })
	}
	return nil
}

// stragglers is when a create that was not found is looked for once more: a thread of the server that stood still may have sent it on behind
// the next one.
const stragglers = time.Second

// createOnce sends the create; and, if look, a look at the queue behind it in the same round trip, most likely: it counts if it shows
// the node.
func (s *session) createOnce(ctx context.Context, n *node, look bool) (names []string, sent time.Time, err error) {
	prefix := n.prefix // the next create has another one
	ask := n.dir + "/" + prefix
	looked := make(chan []string, 1)
	var token uint64
	path, sent, err := await(ctx, s, request[string]{
		late: func(_ string, err error) {
			if err == nil {
				s.doom(&doom{dir: n.dir, prefix: prefix})
			}
		},
		do: func(conn *zk.Conn) (string, error) {
			c := &creating{written: func() {
				if !look || !s.b.calls.Background(func() {
					names, _ := s.children(ctx, n.dir)
					looked <- names
				}) {
					looked <- nil
				}
			}}
			s.creating.Store(ask, c)
			defer s.creating.Delete(ask)
			path, err := conn.Create(ask, record(0, n.owner), zk.FlagEphemeralSequential, s.b.acl)
			if err == nil {
				token = c.zxid
			}
			return path, err
		},
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	p, ok := parsePlace(strings.TrimPrefix(path, n.dir+"/"))
	if !ok {
		return nil, time.Time{}, fmt.Errorf("zookeeper created %q for %q", path, ask)
	}
	n.name, n.number, n.token = p.name, p.number, token
	s.contact.proved(sent)
	if names = <-looked; !slices.Contains(names, n.name) {
		names = nil
	}
	return names, sent, nil
}
