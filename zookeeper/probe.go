package zookeeper

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// openTimeout bounds the look at the ensemble on opening.
const openTimeout = 5 * time.Second

// probe reaches the ensemble once, and finds out what sessions it grants by asking for the shortest and for the longest.
func (b *Backend) probe(ctx context.Context) error {
	const least, most = time.Millisecond, math.MaxInt32 * time.Millisecond
	limited, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	shortest, took, err := b.askSession(limited, least)
	var longest time.Duration
	if err == nil {
		const slower = 3 // another server, another time
		b.first = max(handshakeFirst, slower*took)
		longest, _, err = b.askSession(limited, most)
	}
	if limited.Err() != nil && ctx.Err() == nil { // a context's error would be mistaken for the caller's
		return fmt.Errorf("%w within %v: %v", errNoConnection, openTimeout, err)
	}
	if err != nil {
		return err
	}
	b.limits = limitsOf(shortest, longest, b.options.SessionTimeout)
	if err := b.limits.validate(); err != nil {
		return err
	}
	b.guarantees = b.limits.guarantees()
	if len(b.servers) == 1 {
		text, _ := b.describe(limited, b.servers[0], "srvr")
		b.alone = strings.Contains(text, "\nMode: standalone")
	}
	return nil
}

// askSession opens a session of a timeout, closes it, and returns the timeout that was negotiated, and how long that took.
func (b *Backend) askSession(ctx context.Context, timeout time.Duration) (granted, took time.Duration, err error) {
	s := newSession(b, timeout)
	s.probing = true
	if err := s.open(); err != nil {
		return 0, 0, err
	}
	if _, err := s.whenReady(ctx, time.Now().Add(openTimeout)); err != nil {
		s.die(errLeft)
		return 0, 0, err
	}
	defer s.die(errIdle)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout, s.took, nil
}

// checkContainers fails if the servers do not know the request for a container. This one is for what is there already.
func (s *session) checkContainers(ctx context.Context) error {
	const unimplemented = ": -6" // the end of the library's error for a code that it does not know
	c, _, err := ask(ctx, s, func(c *zk.Conn) (*zk.Conn, error) {
		_, err := c.CreateContainer(rootPath, nil, zk.FlagContainer, s.b.acl)
		return c, err
	})
	switch {
	case err == nil || isReply(err):
		return nil
	case strings.HasSuffix(err.Error(), unimplemented):
		return fmt.Errorf("%w (it says %q)", errTooOld, s.b.version(ctx, c.Server()))
	}
	return err
}

// errTooOld is of a server before 3.5.
var errTooOld = fmt.Errorf("%w: the server knows no containers; ZooKeeper 3.5 or newer is needed", backend.ErrUnsupported)

// version is what the server says of its version.
func (b *Backend) version(ctx context.Context, server string) string {
	text, _ := b.describe(ctx, server, "srvr")
	line, _, _ := strings.Cut(text, "\n")
	if version, ok := strings.CutPrefix(line, "Zookeeper version: "); ok {
		return "ZooKeeper " + strings.TrimSpace(version)
	}
	return "no version"
}

// describe sends the server a command of four letters, as srvr for its own description. The answer is empty if it does not tell.
func (b *Backend) describe(ctx context.Context, server, command string) (text string, err error) {
	c, err := b.options.Dial("tcp", server, handshakeMost)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(handshakeMost)); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(c, command); err != nil {
		return "", err
	}
	const most = 64 << 10
	all, err := io.ReadAll(io.LimitReader(c, most))
	if len(all) > 0 {
		err = nil
	}
	return string(all), err
}
