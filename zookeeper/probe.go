package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// probe reaches the ensemble once, and finds out what sessions it grants by asking for the shortest and for the longest.
func (b *Backend) probe(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err := b.probeAny(limited)
	if limited.Err() != nil && ctx.Err() == nil { // a context's error would be mistaken for the caller's
		return fmt.Errorf("%w within %v: %v", errNoConnection, openTimeout, err)
	}
	return err
}

// probeAny tries the servers in turn, and gives one that hangs little time at first: there may be others.
func (b *Backend) probeAny(ctx context.Context) error {
	servers := append([]string(nil), b.servers...)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	var last error
	for limit := handshakeFirst; ; limit = handshakeMost {
		if len(servers) == 1 {
			limit = handshakeMost
		}
		for _, server := range servers {
			err := b.probeServer(ctx, server, limit)
			if err == nil {
				return nil
			}
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) || last == nil {
				last = err
			}
			if errors.Is(err, errAuth) || errors.Is(err, errTooOld) || ctx.Err() != nil {
				return last
			}
		}
		if len(servers) == 1 { // the address is wrong, or the server is down: say so at once
			return last
		}
		if err := backend.Sleep(ctx, 50*time.Millisecond); err != nil {
			return last
		}
	}
}

// openTimeout bounds the look at the ensemble on opening.
const openTimeout = 5 * time.Second

func (b *Backend) probeServer(ctx context.Context, server string, limit time.Duration) error {
	const least, most = time.Millisecond, math.MaxInt32 * time.Millisecond
	begun := time.Now()
	shortest, err := b.askSession(ctx, server, limit, least)
	if err != nil {
		return err
	}
	const slower = 3 // another server, another time
	b.first = max(handshakeFirst, slower*time.Since(begun))
	longest, err := b.askSession(ctx, server, limit, most)
	if err != nil {
		return err
	}
	b.limits = limitsOf(shortest, longest, b.options.SessionTimeout)
	b.guarantees = b.limits.guarantees()
	b.alone = len(b.servers) == 1 && b.isAlone(ctx, server)
	return nil
}

// dialFor dials a server for one exchange, which ends with ctx, or at the limit.
func (b *Backend) dialFor(ctx context.Context, server string, limit time.Duration) (net.Conn, func(), error) {
	end := time.Now().Add(limit)
	type dialled struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		c, err := b.options.Dial("tcp", server, time.Until(end))
		done <- dialled{c, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, nil, d.err
		}
		if err := d.conn.SetDeadline(end); err != nil {
			_ = d.conn.Close()
			return nil, nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = d.conn.SetDeadline(time.Unix(1, 0)) })
		return d.conn, func() { stop(); _ = d.conn.Close() }, nil
	case <-ctx.Done():
		go func() {
			if d := <-done; d.conn != nil {
				_ = d.conn.Close()
			}
		}()
		return nil, nil, backend.ContextError(ctx, nil)
	}
}

// askSession opens a session of a timeout, closes it, and returns the timeout that was negotiated.
func (b *Backend) askSession(ctx context.Context, server string, limit, timeout time.Duration) (time.Duration, error) {
	c, done, err := b.dialFor(ctx, server, limit)
	if err != nil {
		return 0, err
	}
	defer done()
	granted, err := handshake(c, timeout, b.auth)
	if errors.Is(err, errTooOld) {
		err = fmt.Errorf("%w (it says %s)", err, b.version(ctx, server))
	}
	if cerr := backend.ContextError(ctx, err); cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", server, err)
	}
	return granted, nil
}

func handshake(c net.Conn, timeout time.Duration, auth []byte) (granted time.Duration, err error) {
	const passwordLen, closeXid, containerXid = 16, 1, 2
	const unimplemented = -6
	body := be.AppendUint32(nil, 0) // protocol version
	body = be.AppendUint64(body, 0) // last zxid seen
	body = be.AppendUint32(body, uint32(timeout/time.Millisecond))
	body = be.AppendUint64(body, 0) // session
	body = be.AppendUint32(body, passwordLen)
	body = append(body, make([]byte, passwordLen)...)
	out := append(be.AppendUint32(nil, uint32(len(body))), body...)
	if auth != nil {
		out = append(out, authFrame(auth)...)
	}
	if _, err := c.Write(out); err != nil {
		return 0, err
	}
	p, err := readFrame(c)
	if err != nil {
		return 0, err
	}
	const least = 4 + 4 + 8
	if len(p) < least || be.Uint64(p[8:]) == 0 {
		return 0, errors.New("the server refused a session")
	}
	granted = time.Duration(int32(be.Uint32(p[4:]))) * time.Millisecond
	// A container that cannot be made: servers that know none say so.
	none := createCall("", nil, nil).body
	if _, err := c.Write(append(header(containerXid, opContainer, len(none)), none...)); err != nil {
		return 0, err
	}
	if _, err := c.Write(header(closeXid, opClose, 0)); err != nil {
		return 0, err
	}
	for { // the answer to the close, behind that to the authentication
		p, err := readFrame(c)
		if err != nil {
			return 0, err
		}
		if len(p) < least {
			return 0, errFrame
		}
		switch xid, code := int32(be.Uint32(p)), int32(be.Uint32(p[12:])); {
		case xid == xidAuth && code != 0:
			return 0, errAuth
		case xid == containerXid && code == unimplemented:
			return 0, errTooOld
		case xid == closeXid:
			return granted, nil
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	const size, most = 4, 1 << 20
	var head [size]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := be.Uint32(head[:])
	if n > most {
		return nil, errFrame
	}
	p := make([]byte, n)
	_, err := io.ReadFull(r, p)
	return p, err
}

// isAlone reports whether the server says that it is no member of an ensemble. One that does not say is taken for a member.
func (b *Backend) isAlone(ctx context.Context, server string) bool {
	return strings.Contains(b.describe(ctx, server), "\nMode: standalone")
}

// errTooOld is of a server before 3.5.
var errTooOld = fmt.Errorf("%w: the server knows no containers; ZooKeeper 3.5 or newer is needed", backend.ErrUnsupported)

// version is what the server says of its version.
func (b *Backend) version(ctx context.Context, server string) string {
	line, _, _ := strings.Cut(b.describe(ctx, server), "\n")
	if version, ok := strings.CutPrefix(line, "Zookeeper version: "); ok {
		return "ZooKeeper " + strings.TrimSpace(version)
	}
	return "no version"
}

// describe asks the server for its own description, empty if it does not tell.
func (b *Backend) describe(ctx context.Context, server string) string {
	c, done, err := b.dialFor(ctx, server, handshakeMost)
	if err != nil {
		return ""
	}
	defer done()
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return ""
	}
	const most = 64 << 10
	text, _ := io.ReadAll(io.LimitReader(c, most))
	return string(text)
}
