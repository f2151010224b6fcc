package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend/kit"
)

// create creates n's node, and before it the container if missing is set. names are the container's children, read
// after the create, or nil if they are unknown. sent is taken before the create is sent, which proves the node and the
// session. After an error the node does not exist, or is deleted in the background. So is a container that create may
// have created, because the servers remove no container that has never had a child.
//
// If the connection breaks, the outcome of a create is unknown. Another create would queue behind the node of the
// first. So before it sends another, create searches for that node and deletes it. If create cannot find or delete the
// node, deleteLater continues in the background. A node counts only if its own create was answered. (The library's
// protected create adopts the node that it finds. It fails if the search fails, and does not compare sessions.)
func (s *session) create(ctx context.Context, n *node, missing bool) (names []string, sent time.Time, err error) {
	const attempts = 5 // the servers, or another client, may remove an empty container before the create
	defer func() {
		if missing && err != nil {
			s.deleteLater(&pendingDelete{dir: s.b.root, name: strings.TrimPrefix(n.dir, s.b.root+"/")})
		}
	}()
	for i := 1; ; i++ {
		if missing {
			if err = s.createContainer(ctx, n.dir); err != nil {
				return nil, time.Time{}, err
			}
		}
		names, sent, err = s.createOnce(ctx, n)
		switch {
		case err == nil:
			return names, sent, nil
		case errors.Is(err, zk.ErrNoNode) && i < attempts:
			missing = true
			continue
		case isReply(err), wasNotSent(err):
			return nil, time.Time{}, err
		}
		unknown := &pendingDelete{dir: n.dir, prefix: n.prefix}
		repeat := i < attempts && isBroken(err) && !kit.Ended(ctx)
		deleted := repeat && s.tryDelete(ctx, unknown)
		repeat = repeat && unknown.searched
		if !deleted {
			n.mayRemain = n.mayRemain || !errors.Is(s.endReason(), errExpired)
			s.deleteLater(unknown)
		}
		if !repeat {
			return nil, time.Time{}, cmp.Or(s.endReason(), err) // the search may have found that the session has ended
		}
		n.prefix = nodePrefix(n.owner, n.mode)
	}
}

// createOnce sends the create, and a read of the queue with it.
func (s *session) createOnce(ctx context.Context, n *node) (names []string, sent time.Time, err error) {
	prefix := n.prefix // copied, because the next create has another prefix
	wanted := n.dir + "/" + prefix
	c := &creation{dir: n.dir, names: make(chan []string, 1)}
	path, sent, err := await(ctx, s, func(conn *zk.Conn) (string, error) {
		s.creations.Store(wanted, c)
		defer s.creations.Delete(wanted)
		return conn.Create(wanted, record(0, n.owner), zk.FlagEphemeralSequential, s.b.options.ACL)
	}, func(_ string, err error) {
		if !isReply(err) && !wasNotSent(err) { // the search for the node may have ended before the create was sent
			s.deleteLater(&pendingDelete{dir: n.dir, prefix: prefix})
		}
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	p, ok := parsePlace(strings.TrimPrefix(path, n.dir+"/"))
	if !ok {
		return nil, time.Time{}, fmt.Errorf("zookeeper created %q for %q", path, wanted)
	}
	n.place, n.token = p, c.zxid
	s.contact.committed(sent)
	select {
	case names = <-c.names:
	case <-ctx.Done():
	case <-s.ended:
	case <-time.After(time.Until(sent.Add(s.b.options.Timeout))): // the link hangs since the reply to the create
	}
	if !slices.Contains(names, n.name) {
		names = nil
	}
	return names, sent, nil
}

// createContainer creates dir, a key's container, unless it exists.
func (s *session) createContainer(ctx context.Context, dir string) error {
	create := func(c *zk.Conn) (string, error) {
		return c.CreateContainer(dir, nil, zk.FlagContainer, s.b.options.ACL)
	}
	_, err := awaitIdempotent(ctx, s, create)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.createRoot(ctx); err != nil {
			return err
		}
		_, err = awaitIdempotent(ctx, s, create)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// createRoot creates the node that contains all locks, and its parents, unless they exist.
func (s *session) createRoot(ctx context.Context) error {
	for i := 1; i <= len(s.b.root); i++ {
		if i < len(s.b.root) && s.b.root[i] != '/' {
			continue
		}
		path := s.b.root[:i]
		_, err := awaitIdempotent(ctx, s, func(c *zk.Conn) (string, error) {
			return c.Create(path, nil, zk.FlagPersistent, s.b.options.ACL)
		})
		if errors.Is(err, zk.ErrNoAuth) {
			if _, missing := s.childCount(ctx, path); missing == nil { // another user owns it, for example the chroot
				continue
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// A pendingDelete is a node that must be deleted. While its session lives, the servers do not delete it. A container is
// deleted only if it is empty.
type pendingDelete struct {
	dir    string
	name   string // empty if it is unknown: a create was not answered
	prefix string // of an unknown name; each create has another prefix
	orphan bool   // its lease was lost

	searched bool      // the container was read
	absent   time.Time // when it was first read without finding the node
}

// lateArrival is how long an unanswered create may take to arrive at the server after its connection broke.
const lateArrival = time.Second

// deleteLater deletes a node in the background, until the servers have confirmed the delete or the session has ended.
// Once Close has begun, deleteLater no longer waits for a late create.
func (s *session) deleteLater(d *pendingDelete) {
	if d.orphan {
		s.orphans.Add(1)
	}
	s.b.leases.Go(func(ctx context.Context) {
		if d.orphan {
			defer s.orphans.Add(-1)
		}
		pause := kit.Pause{Min: 20 * time.Millisecond, Max: time.Second}
		for sleepCtx := s.b.leases.Closing(); !s.hasEnded() && !s.tryDelete(ctx, d) && ctx.Err() == nil; {
			if s.b.leases.Closed() {
				if sleepCtx = ctx; d.searched {
					return
				}
			}
			wait := pause.Next(0)
			if d.searched {
				wait = lateArrival
			}
			_ = s.sleep(sleepCtx, wait)
		}
	})
}

// tryDelete deletes d's node, and reports whether the node does not exist and cannot be created any more.
func (s *session) tryDelete(ctx context.Context, d *pendingDelete) bool {
	name := d.name
	if name == "" {
		names, err := s.currentChildren(ctx, d.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return isReply(err)
		}
		for _, child := range names {
			if strings.HasPrefix(child, d.prefix) {
				name = child
			}
		}
		if name == "" && !d.searched {
			d.absent = time.Now()
		}
		d.searched = true
	}
	if name == "" {
		return time.Since(d.absent) >= lateArrival
	}
	_, err := s.delete(ctx, d.dir+"/"+name)
	return err == nil || isReply(err)
}
