package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Requests of the protocol, and the xid of the reply to an authentication.
const (
	opCreate   = 1
	opChildren = 12
	opAuth     = 100
	opSetWatch = 101 // the watches of the session, on a new connection
	xidAuth    = -4
)

const maxFrame = 64 << 20

var (
	errAuth  = errors.New("authentication failed")
	errFrame = errors.New("a frame is malformed")
	be       = binary.BigEndian
)

// A connection is a connection of a session. All requests but one are the library's: a read of the queue goes out
// together with each create. The connection sees every frame, and so what the library does not report: the negotiated
// timeout, when a frame was received, the zxid of a create. It restricts the library to one session, and works around
// its defects (conn.go of v1.0.4):
//
//   - recvLoop writes lastZxid (849) while sendSetWatches (614) reads it, a data race, and with a zxid that is too new
//     the servers would not report what happened in between. So the connection removes zxids from replies, and puts
//     them into requests. (TestReconnectSendsLatestZxid, TestBrokenConnectionIsReplaced)
//   - authenticate (683) waits for the answer to a handshake for ten times two thirds of the session's timeout: see
//     SetReadDeadline. (TestOpensPastHungServer, TestNewSessionLeavesHungServer)
//   - AddAuth (967) is a request like others, which may be sent after them, or not at all: the connection sends the
//     credentials with each handshake. (TestDigest)
type connection struct {
	net.Conn
	s     *session
	begun time.Time // before the handshake was sent
	seen  int64     // the session's zxid then

	// Of the reading goroutine.
	in    *bufio.Reader
	frame []byte // the rest of the frame that the library reads
	buf   []byte

	mu        sync.Mutex
	shaken    bool                // the handshake was answered
	asked     time.Time           // when the first heartbeat since the last frame was sent; zero before
	creations map[int32]*creation // under way, by xid
	reads     map[int32]*creation // whose queues are being read, by xid of the read
}

func newConnection(c net.Conn, s *session) *connection {
	return &connection{
		Conn: c, s: s, in: bufio.NewReader(c), creations: make(map[int32]*creation), reads: make(map[int32]*creation),
	}
}

// Write takes one whole frame, as the library writes them, and sends it, perhaps with changes.
func (c *connection) Write(p []byte) (int, error) {
	const size, header = 4, 12
	if len(p) < header || len(p) != size+int(be.Uint32(p)) {
		return 0, errFrame
	}
	c.mu.Lock()
	shaken := c.shaken
	c.mu.Unlock()
	frame, err := p, error(nil)
	switch op := int32(be.Uint32(p[8:])); {
	case !shaken:
		frame, err = c.handshake(p)
	case op == opSetWatch:
		if len(p) < header+8 {
			return 0, errFrame
		}
		frame = slices.Clone(p)
		be.PutUint64(frame[header:], uint64(c.seen))
	case op == opCreate:
		if found, ok := c.s.creations.Load(framePath(p[header:])); ok {
			frame = c.withRead(p, found.(*creation))
		}
	}
	if err == nil {
		_, err = c.Conn.Write(frame)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// A creation is a create that is under way.
type creation struct {
	dir   string
	zxid  uint64        // of the create; set before the library gets the reply
	names chan []string // receives the children of dir, read after the create; closed if the connection ends before
}

// withRead returns the frame of a create followed by a read of the queue. A server receives both at once, so the read
// costs no round trip, and does not wait for writes that arrive in between.
func (c *connection) withRead(frame []byte, n *creation) []byte {
	const readBit = 1 << 30 // no request so many before the create is still under way
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

func appendText[T string | []byte](frame []byte, text T) []byte {
	return append(be.AppendUint32(frame, uint32(len(text))), text...)
}

// framePath returns the text at the beginning of a body, empty if there is none.
func framePath(body []byte) string {
	text, _, _ := cutText(body)
	return text
}

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

// handshake returns the request for a session, which the library makes whenever it is not connected.
func (c *connection) handshake(p []byte) ([]byte, error) {
	const (
		zxidAt = 4 + 4          // after length, version
		idAt   = zxidAt + 8 + 4 // and timeout
		idEnd  = idAt + 8
	)
	if len(p) < idEnd {
		return nil, errFrame
	}
	if isNew := be.Uint64(p[idAt:]) == 0; !c.s.mayHandshake(isNew) {
		err := errAbandoned
		if isNew { // the library asks for a new session because a server has answered that the last one expired
			err = errExpired
		}
		c.s.end(err)
		return nil, err
	}
	frame := slices.Clone(p)
	c.seen = c.s.zxid.Load()
	be.PutUint64(frame[zxidAt:], uint64(c.seen))
	if c.s.b.auth != nil {
		body := be.AppendUint32(nil, uint32(xidAuth&0xffffffff))
		body = be.AppendUint32(body, opAuth)
		body = be.AppendUint32(body, 0)
		body = appendText(appendText(body, "digest"), c.s.b.auth)
		frame = append(be.AppendUint32(frame, uint32(len(body))), body...)
	}
	c.begun = time.Now()
	return frame, nil
}

// mayHandshake reports whether another handshake may be sent, and counts it. A handshake keeps its session alive at the
// servers even if its answer never arrives, because one direction of the link may be broken. A client that tried again
// and again would keep the keys of leases that it has lost.
//
// The first handshake after a connection has ended is always sent, because it may find the session expired. Others
// are sent only for a live lease; or for the places of waiters, while the servers may keep them, unless there is a
// node that they should not keep. A handshake for a new session (isNew) is sent once, because requests that were
// queued for the first session would be sent in the second.
func (s *session) mayHandshake(isNew bool) bool {
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
	_, expiry := s.contact.lastSign() // not keptUntil: waiters write once, so it may have passed long ago
	return len(lives) == 0 && s.orphans.Load() == 0 && now.Before(expiry)
}

// silence records a heartbeat, and returns how long ago the first heartbeat since the last frame was sent.
func (c *connection) silence(sent time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.IsZero() {
		c.asked = sent
	}
	return sent.Sub(c.asked)
}

// Read returns inspected frames to the library.
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
	ours, err := c.inspect(c.buf[size:])
	if err == nil && !ours {
		c.frame = c.buf
	}
	return err
}

// inspect reads a reply, and removes its zxid. ours reports a reply that the library does not wait for.
func (c *connection) inspect(p []byte) (ours bool, err error) {
	const header = 4 + 8 + 4 // a handshake is no shorter
	if len(p) < header {
		return false, errFrame
	}
	xid, zxid, code := int32(be.Uint32(p)), be.Uint64(p[4:]), int32(be.Uint32(p[12:]))
	c.mu.Lock()
	c.asked = time.Time{}
	first, created, read := !c.shaken, c.creations[xid], c.reads[xid]
	c.shaken = true
	delete(c.creations, xid)
	delete(c.reads, xid)
	c.mu.Unlock()
	switch {
	case first:
		timeout := time.Duration(int32(be.Uint32(p[4:]))) * time.Millisecond
		c.s.established(c, int64(be.Uint64(p[8:])), timeout)
		return false, nil
	case xid == xidAuth && code != 0:
		c.s.end(errAuth)
		return false, errAuth
	case xid >= 0 && int64(zxid) > c.s.zxid.Load(): // only one goroutine stores it: connections follow each other
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

// childrenOf returns the names in the reply to a read of a queue, nil after an error.
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

// Close implements net.Conn. The library closes every connection that had a handshake.
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

// SetReadDeadline limits the handshake, for which the library would wait for several times the session's timeout.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	shaken := c.shaken
	c.mu.Unlock()
	if !shaken {
		t = time.Now().Add(c.s.handshakeLimit())
	}
	return c.Conn.SetReadDeadline(t)
}
