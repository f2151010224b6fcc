package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// children lists dir. A missing dir is zk.ErrNoNode.
func (s *session) children(ctx context.Context, dir string) ([]string, error) {
	names, _, err := ask(ctx, s, func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(dir)
		return names, err
	})
	return names, err
}

// latest is children as of now. The server answers the write before it, which changes nothing, when it has applied all that
// was committed before; only a server that is alone always has. Sync would not do: a leader answers it while it has yet
// to apply what followers have confirmed to others (its CommitProcessor does not order syncs).
func (s *session) latest(ctx context.Context, dir string) ([]string, error) {
	if !s.b.alone {
		if err := s.check(ctx, s.b.root); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
	}
	return s.children(ctx, dir)
}

// check makes a write that changes nothing, and fails with zk.ErrNoNode if one of paths is missing. What it proves is
// noted in s.contact.
func (s *session) check(ctx context.Context, paths ...string) error {
	_, sent, err := ask(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		ops := make([]any, len(paths))
		for i, p := range paths {
			ops[i] = &zk.CheckVersionRequest{Path: p, Version: -1}
		}
		return c.Multi(ops...)
	})
	if err == nil {
		s.contact.proved(sent)
	}
	return err
}

// remove deletes a node. A missing one is zk.ErrNoNode.
func (s *session) remove(ctx context.Context, path string) error {
	_, _, err := await(ctx, s, request[struct{}]{do: func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, c.Delete(path, -1)
	}})
	return err
}

// A content is an answer to Get.
type content struct {
	data []byte
	stat *zk.Stat
}

func (s *session) get(ctx context.Context, path string) (content, error) {
	v, _, err := ask(ctx, s, func(c *zk.Conn) (content, error) {
		data, stat, err := c.Get(path)
		return content{data, stat}, err
	})
	return v, err
}

// makeContainer creates dir, which is a key's, and reports whether it was missing.
func (s *session) makeContainer(ctx context.Context, dir string) (made bool, err error) {
	create := func(c *zk.Conn) (string, error) { return c.CreateContainer(dir, nil, zk.FlagContainer, s.b.acl) }
	_, _, err = ask(ctx, s, create)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.makeRoot(ctx); err != nil {
			return false, err
		}
		_, _, err = ask(ctx, s, create)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return false, nil
	}
	return err == nil, err
}

// makeRoot creates the node that has all locks, and what is missing above it.
func (s *session) makeRoot(ctx context.Context) error {
	for i := 1; i < len(s.b.root); i++ {
		if s.b.root[i] == '/' {
			if err := s.make(ctx, s.b.root[:i]); err != nil {
				return err
			}
		}
	}
	return s.make(ctx, s.b.root)
}

func (s *session) make(ctx context.Context, path string) error {
	_, _, err := ask(ctx, s, func(c *zk.Conn) (string, error) {
		return c.Create(path, nil, zk.FlagPersistent, s.b.acl)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	if errors.Is(err, zk.ErrNoAuth) { // one that others own, as the chroot may be
		if _, gerr := s.exists(ctx, path); gerr == nil {
			return nil
		}
	}
	return err
}

// exists asks for a node's data about itself. A missing node is zk.ErrNoNode.
func (s *session) exists(ctx context.Context, path string) (*zk.Stat, error) {
	st, _, err := ask(ctx, s, func(c *zk.Conn) (*zk.Stat, error) {
		ok, st, err := c.Exists(path)
		if err == nil && !ok {
			err = zk.ErrNoNode
		}
		return st, err
	})
	return st, err
}
