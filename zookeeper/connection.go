package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Requests of the protocol, and the xid of the reply to an authentication.
const (
	opCreate   = 1
	opChildren = 12
	opAuth     = 100
	opSetWatch = 101 // restores the session's watches on a new connection
	xidAuth    = -4
)

const maxFrame = 64 << 20

var (
	errAuth  = errors.New("authentication failed")
	errFrame = errors.New("a frame is malformed")
	be       = binary.BigEndian
)

// A connection is one connection of a session. The library makes the requests; the connection adds a read of the queue
// to each create, and credentials to each handshake. The connection sees every frame, so it knows what the library does
// not report: the negotiated timeout, when a frame was received, the zxid of a create. It restricts the library to one
// session, and works around its defects (conn.go of v1.0.4):
//
//   - recvLoop writes lastZxid (849) while sendSetWatches (614) reads it, which is a data race. If the zxid is too new,
//     the servers do not report the changes in between. So the connection removes zxids from replies, and inserts them
//     into requests. (TestReconnectSendsLatestZxid, TestBrokenConnectionIsReplaced)
//   - authenticate (683) waits for the reply to a handshake for ten times two thirds of the session's timeout. So
//     SetReadDeadline sets a shorter limit. (TestOpensPastHungServer, TestNewSessionLeavesHungServer)
//   - AddAuth (967) is a request like others, which may be sent after them, or not at all. So the connection sends the
//     credentials with each handshake. (TestDigest)
//   - sendData (753), queueRequest (923) and flushRequests (527) may each report an error of one request, whose channel
//     holds two. If nobody receives, the library's goroutine never ends. So Write reports no errors of the network.
//     (TestBrokenConnectionDuringCloseBlocksNothing)
type connection struct {
	net.Conn
	s               *session
	handshakeSent   time.Time // taken before the handshake was sent
	zxidAtHandshake int64     // the session's latest zxid when the handshake was sent

	// Used only by the reading goroutine.
	in    *bufio.Reader
	frame []byte // the unread rest of the frame that the library is reading
	buf   []byte

	established atomic.Bool // the handshake was answered

	mu              sync.Mutex
	unansweredSince time.Time           // when the first heartbeat since the last received frame was sent, or zero
	creations       map[int32]*creation // creates under way, by xid
	reads           map[int32]*creation // creates whose reads of the queue are under way, by xid of the read
}

func newConnection(c net.Conn, s *session) *connection {
	return &connection{
		Conn: c, s: s, in: bufio.NewReader(c), creations: make(map[int32]*creation), reads: make(map[int32]*creation),
	}
}

// Write sends one whole frame, perhaps with changes. The library writes each frame by one call. If the network fails,
// Write closes the connection, so that the next read fails, and reports success.
func (c *connection) Write(p []byte) (int, error) {
	const size, header = 4, 12
	if len(p) < header || len(p) != size+int(be.Uint32(p)) {
		return 0, errFrame
	}
	frame, err := p, error(nil)
	switch op := int32(be.Uint32(p[8:])); {
	case !c.established.Load():
		frame, err = c.handshake(p)
	case op == opSetWatch:
		if len(p) < header+8 {
			return 0, errFrame
		}
		frame = slices.Clone(p)
		be.PutUint64(frame[header:], uint64(c.zxidAtHandshake))
	case op == opCreate:
		path, _, _ := cutText(p[header:])
		if found, ok := c.s.creations.Load(path); ok {
			frame = c.withRead(p, found.(*creation))
		}
	}
	if err != nil {
		return 0, err
	}
	if _, err := c.Conn.Write(frame); err != nil {
		_ = c.Close()
	}
	return len(p), nil
}

// A creation is a create that is under way.
type creation struct {
	dir   string
	zxid  uint64        // of the create; set before the library gets the reply
	names chan []string // receives the children of dir, read after the create; closed if the connection ends before
}

// withRead returns the frame of a create, followed by a read of the queue. A server receives both at once, so the read
// costs no round trip, and does not wait for writes that arrive in between.
func (c *connection) withRead(frame []byte, n *creation) []byte {
	const readBit = 1 << 30 // makes a unique xid: no request made 2^30 requests before the create is still under way
	xid := int32(be.Uint32(frame[4:]))
	c.mu.Lock()
	c.creations[xid] = n
	c.reads[xid^readBit] = n
	c.mu.Unlock()
	body := be.AppendUint32(nil, uint32(xid^readBit))
	body = be.AppendUint32(body, opChildren)
	body = append(appendText(body, n.dir), 0) // no watch
	return append(be.AppendUint32(slices.Clone(frame), uint32(len(body))), body...)
}

func appendText(frame []byte, text string) []byte {
	return append(be.AppendUint32(frame, uint32(len(text))), text...)
}

// cutText returns the text at the beginning of a body, and the rest of the body.
func cutText(body []byte) (text string, rest []byte, ok bool) {
	const size = 4
	if len(body) < size {
		return "", nil, false
	}
	n := int(int32(be.Uint32(body)))
	if n < 0 || n > len(body)-size {
		return "", nil, false
	}
	return string(body[size : size+n]), body[size+n:], true
}

// handshake returns the frames to send for p, the library's request for a session, which is the first on each
// connection.
func (c *connection) handshake(p []byte) ([]byte, error) {
	const (
		zxidAt = 4 + 4          // after length, version
		idAt   = zxidAt + 8 + 4 // and timeout
		idEnd  = idAt + 8
	)
	if len(p) < idEnd {
		return nil, errFrame
	}
	if isNew := be.Uint64(p[idAt:]) == 0; !c.s.admitHandshake(isNew) {
		err := errAbandoned
		if isNew { // the library requests a new session because a server has reported that the last one expired
			err = errExpired
		}
		c.s.end(err)
		return nil, err
	}
	frame := slices.Clone(p)
	c.zxidAtHandshake = c.s.zxid.Load()
	be.PutUint64(frame[zxidAt:], uint64(c.zxidAtHandshake))
	if o := c.s.b.options; o.User != "" {
		body := be.AppendUint32(nil, uint32(xidAuth&0xffffffff))
		body = be.AppendUint32(body, opAuth)
		body = be.AppendUint32(body, 0)
		body = appendText(appendText(body, "digest"), o.User+":"+o.Password)
		frame = append(be.AppendUint32(frame, uint32(len(body))), body...)
	}
	c.handshakeSent = time.Now()
	return frame, nil
}

// admitHandshake reports whether another handshake may be sent, and counts it. A handshake keeps its session alive at
// the servers even if its reply never arrives, for example because only one direction of the link works. A client that
// repeated handshakes forever would keep the keys of leases that it has lost.
//
// The first handshake after a connection has ended is always sent, because the session may prove to have expired.
// Others are sent only for a live lease, or to keep the places of waiters while the servers may still have them. A
// session that may contain the node of a lost lease is not kept for waiters. A handshake for a new session (isNew) is
// sent only until the session exists, because the library would send requests that were queued for the first session in
// the second.
func (s *session) admitHandshake(isNew bool) bool {
	s.mu.Lock()
	exists, first := s.id != 0, s.handshakes == 0
	s.handshakes++
	lives := s.livesLocked()
	s.mu.Unlock()
	switch {
	case isNew:
		return !exists
	case first:
		return true
	}
	now, kept := time.Now(), s.contact.keptUntil()
	for _, l := range lives {
		if now.Before(kept) && now.Before(l.Deadline()) {
			return true
		}
	}
	// Not keptUntil: waiters write once, so it may have passed long ago.
	return len(lives) == 0 && s.orphans.Load() == 0 && now.Before(s.contact.lastExpiry())
}

// noteHeartbeat records a heartbeat that is about to be sent, at sent. It returns the time since the first heartbeat
// after the last received frame.
func (c *connection) noteHeartbeat(sent time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unansweredSince.IsZero() {
		c.unansweredSince = sent
	}
	return sent.Sub(c.unansweredSince)
}

// Read returns the processed frames to the library.
func (c *connection) Read(p []byte) (int, error) {
	for len(c.frame) == 0 {
		if err := c.nextFrame(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.frame)
	c.frame = c.frame[n:]
	return n, nil
}

func (c *connection) nextFrame() error {
	const size = 4
	head, err := c.in.Peek(size)
	if err != nil {
		return err
	}
	n := be.Uint32(head)
	if n > maxFrame {
		return errFrame
	}
	c.buf = slices.Grow(c.buf[:0], size+int(n))[:size+int(n)]
	if _, err := io.ReadFull(c.in, c.buf); err != nil {
		return err
	}
	ours, err := c.handleReply(c.buf[size:])
	if err == nil && !ours {
		c.frame = c.buf
	}
	return err
}

// handleReply processes a reply, and removes its zxid. ours reports a reply to the connection's own request, which the
// library does not expect.
func (c *connection) handleReply(p []byte) (ours bool, err error) {
	const header = 4 + 8 + 4 // the reply to a handshake is no shorter
	if len(p) < header {
		return false, errFrame
	}
	xid, zxid, code := int32(be.Uint32(p)), be.Uint64(p[4:]), int32(be.Uint32(p[12:]))
	c.mu.Lock()
	c.unansweredSince = time.Time{}
	created, read := c.creations[xid], c.reads[xid]
	delete(c.creations, xid)
	delete(c.reads, xid)
	c.mu.Unlock()
	switch {
	case !c.established.Swap(true):
		timeout := time.Duration(int32(be.Uint32(p[4:]))) * time.Millisecond
		c.s.established(c, int64(be.Uint64(p[8:])), timeout)
		return false, nil
	case xid == xidAuth && code != 0:
		c.s.end(errAuth)
		return false, errAuth
	case xid >= 0 && int64(zxid) > c.s.zxid.Load(): // no race: a session has one connection at a time
		c.s.zxid.Store(int64(zxid))
	}
	switch {
	case created != nil:
		created.zxid = zxid
	case read != nil:
		read.names <- childrenOf(code, p[header:])
	}
	be.PutUint64(p[4:], 0)
	return read != nil, nil
}

// childrenOf returns the names in the reply to a read of a queue, or nil after an error.
func childrenOf(code int32, body []byte) (names []string) {
	if code != 0 || len(body) < 4 {
		return nil
	}
	for n, rest := int32(be.Uint32(body)), body[4:]; n > 0; n-- {
		var name string
		var ok bool
		if name, rest, ok = cutText(rest); !ok {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// Close implements net.Conn. The library closes every connection, except one that reports the expiry of its session:
// see session.open.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for xid, n := range c.reads {
		close(n.names)
		delete(c.reads, xid)
	}
	return err
}

// SetReadDeadline sets a shorter deadline until the handshake is answered, because the library would wait for several
// times the session's timeout.
func (c *connection) SetReadDeadline(t time.Time) error {
	if !c.established.Load() {
		t = time.Now().Add(c.s.handshakeLimit())
	}
	return c.Conn.SetReadDeadline(t)
}
