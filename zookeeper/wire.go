package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// What frames are about, of the protocol.
const (
	opCreate    = 1
	opDelete    = 2
	opPing      = 11
	opChildren  = 12
	opMulti     = 14
	opSetWatch  = 101 // the watches there were, on a new connection
	opCreate2   = 15  // only in answers
	opContainer = 19
	opClose     = -11
	opError     = -1 // only in answers
	opAuth      = 100

	xidPing = -2
	xidAuth = -4
)

const mostFrame = 64 << 20

var (
	errExpired    = errors.New("the session has expired")
	errAuth       = errors.New("authentication failed")
	errAbandoned  = errors.New("the session is left to expire")
	errFrame      = errors.New("a frame is malformed")
	be            = binary.BigEndian
	handshakeMost = 2 * time.Second
)

// handshakeFirst is how long each of several servers gets at first while there is no session that could end meanwhile, and a
// request waits for one: longer where it took long on opening, as over a slow link.
const handshakeFirst = 500 * time.Millisecond

// A wire is the connection of a session. It sees every frame, and so what the client library does not tell: the timeout
// that was negotiated, when a request was sent whose answer has come, the zxid of a create. It holds the library to one
// session, and adds what the library lacks: pings of our own, authentication that cannot deadlock, a handshake
// that does not hang.
//
// It keeps zxids to itself, and enters them into requests. The library remembers the latest while it reads it for the watches
// that it sets again on a new connection: a data race, and with a zxid too new the servers would tell nothing of what
// happened in between.
type wire struct {
	net.Conn
	s     *session
	begun time.Time // before the handshake was sent
	seen  int64     // the session's zxid then

	part []byte // of a frame that is not written whole yet

	// Of the reading goroutine.
	in    *bufio.Reader
	frame []byte // what is left of the frame being read
	buf   []byte

	mu      sync.Mutex
	shaken  bool            // the handshake is over
	ended   bool            // nothing is answered any more
	sent    map[int32]under // the library's requests under way
	calls   map[int32]*call // ours
	xid     int32           // of the last of them
	ahead   int             // how much was written that was not answered
	pings   []time.Time     // pings under way, in order
	heard   time.Time       // when a frame came last
	creates map[int32]*node // creates under way
	both    map[int32]bool  // requests under way that make a container, too
}

// An under is a request of the library that is under way.
type under struct {
	at   time.Time // when it was written
	xid  int32     // as the library counts
	size int
}

func newWire(c net.Conn, s *session) *wire {
	return &wire{
		Conn: c, s: s, in: bufio.NewReader(c),
		sent: make(map[int32]under), calls: make(map[int32]*call), creates: make(map[int32]*node), both: make(map[int32]bool),
	}
}

// Write takes frames, in whatever pieces the library writes them. It passes whole ones on: our own come between them.
func (w *wire) Write(p []byte) (int, error) {
	const size = 4
	taken := len(p)
	if len(w.part) > 0 {
		w.part = append(w.part, p...)
		p = w.part
	}
	for len(p) >= size {
		n := int64(be.Uint32(p))
		if n > mostFrame {
			return 0, errFrame
		}
		end := size + int(n)
		if len(p) < end {
			break
		}
		if err := w.writeFrame(p[:end]); err != nil {
			return 0, err
		}
		p = p[end:]
	}
	w.part = append(w.part[:0], p...)
	return taken, nil
}

// writeFrame passes one whole frame on, and may change it.
func (w *wire) writeFrame(p []byte) error {
	const least = 12
	if len(p) < least {
		return errFrame
	}
	w.mu.Lock()
	shaken := w.shaken
	w.mu.Unlock()
	if !shaken {
		return w.writeHandshake(p)
	}
	xid, op := int32(be.Uint32(p[4:])), int32(be.Uint32(p[8:]))
	if op == opClose && w.s.isAbandoned() {
		_ = w.Conn.Close()
		return errAbandoned
	}
	if f := w.s.b.frame.Load(); f != nil {
		(*f)(op)
	}
	var n *node
	both := false
	switch op {
	case opSetWatch:
		const zxidAt, end = least, least + 8
		if len(p) < end {
			return errFrame
		}
		p = append([]byte(nil), p...)
		be.PutUint64(p[zxidAt:], uint64(w.seen))
	case opMulti:
		n, both = w.asContainer(p)
	}
	w.mu.Lock()
	switch {
	case xid == xidPing:
		w.pings = append(w.pings, time.Now())
	case xid >= 0: // the others are not told from each other
		u := under{at: time.Now(), xid: xid, size: len(p)}
		xid %= firstXid // the numbers above are of our own calls
		be.PutUint32(p[4:], uint32(xid))
		w.sent[xid] = u
		w.ahead += len(p)
	}
	if n != nil {
		w.creates[xid] = n
	}
	if both {
		w.both[xid] = true
	}
	w.mu.Unlock()
	_, err := w.Conn.Write(p)
	return err
}

// framePath is the string at the beginning of a request's body.
func framePath(body []byte) string {
	const size = 4
	if len(body) < size {
		return ""
	}
	n := int(be.Uint32(body))
	if n < 0 || n > len(body)-size {
		return ""
	}
	return string(body[size : size+n])
}

// writeHandshake sends the request for a session, which the library makes by itself whenever it is without one. A second
// session is refused it: what was queued for the first would run under it.
func (w *wire) writeHandshake(p []byte) error {
	const (
		zxidAt = 4 + 4          // behind length, version
		idAt   = zxidAt + 8 + 4 // and timeout
		idEnd  = idAt + 8
	)
	if len(p) < idEnd {
		return errFrame
	}
	if be.Uint64(p[idAt:]) == 0 && w.s.hasID() {
		return errExpired
	}
	if !w.s.mayShake() {
		w.s.die(errExpired)
		return errExpired
	}
	out := append([]byte(nil), p...)
	w.seen = w.s.zxid.Load()
	be.PutUint64(out[zxidAt:], uint64(w.seen))
	if w.s.b.auth != nil {
		out = append(out, authFrame(w.s.b.auth)...)
	}
	w.begun = time.Now()
	_, err := w.Conn.Write(out)
	return err
}

func authFrame(digest []byte) []byte {
	body := be.AppendUint32(nil, uint32(xidAuth&0xffffffff))
	body = be.AppendUint32(body, opAuth)
	body = be.AppendUint32(body, 0)
	for _, part := range [][]byte{[]byte("digest"), digest} {
		body = be.AppendUint32(body, uint32(len(part)))
		body = append(body, part...)
	}
	return append(be.AppendUint32(nil, uint32(len(body))), body...)
}

// ping sends a sign of life, and reports for how long one has been without an answer and nothing else has come.
func (w *wire) ping() (unanswered time.Duration) {
	w.mu.Lock()
	if !w.shaken {
		w.mu.Unlock()
		return 0
	}
	if len(w.pings) > 0 {
		unanswered = min(time.Since(w.pings[0]), time.Since(w.heard))
	}
	blocks := w.ahead > mostAhead
	w.mu.Unlock()
	write := func() { _ = w.writeFrame(header(xidPing, opPing, 0)) }
	if blocks {
		w.s.b.calls.Background(write)
	} else {
		write()
	}
	return unanswered
}

// header begins a frame with so many more bytes.
func header(xid, op int32, more int) []byte {
	p := be.AppendUint32(nil, uint32(8+more))
	p = be.AppendUint32(p, uint32(xid))
	return be.AppendUint32(p, uint32(op))
}

// Read serves what the library reads: whole frames, which were looked at before.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.frame) == 0 {
		if err := w.next(); err != nil {
			w.end()
			return 0, err
		}
	}
	n := copy(p, w.frame)
	w.frame = w.frame[n:]
	return n, nil
}

func (w *wire) next() error {
	const size = 4
	var head [size]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return err
	}
	n := int(be.Uint32(head[:]))
	if n > mostFrame {
		return errFrame
	}
	if cap(w.buf) < size+n {
		w.buf = make([]byte, size+n)
	}
	w.buf = w.buf[:size+n]
	copy(w.buf, head[:])
	if _, err := io.ReadFull(w.in, w.buf[size:]); err != nil {
		return err
	}
	p, err := w.look(w.buf[size:])
	if err != nil || p == nil {
		return err
	}
	w.frame = w.buf[:size+len(p)]
	be.PutUint32(w.frame, uint32(len(p)))
	return nil
}

// look reads an answer, and returns it as the library is to see it; nil if it is not to.
func (w *wire) look(p []byte) ([]byte, error) {
	const handshake, reply = 4 + 4 + 8, 4 + 8 + 4
	w.mu.Lock()
	w.heard = time.Now()
	if !w.shaken {
		w.shaken = true
		w.mu.Unlock()
		if len(p) < handshake {
			return nil, errFrame
		}
		timeout := time.Duration(int32(be.Uint32(p[4:]))) * time.Millisecond
		return p, w.s.established(w, int64(be.Uint64(p[8:])), timeout)
	}
	if len(p) < reply {
		w.mu.Unlock()
		return nil, errFrame
	}
	xid, zxid, code := int32(be.Uint32(p)), be.Uint64(p[4:]), int32(be.Uint32(p[12:]))
	if xid >= firstXid {
		return nil, w.hand(xid, zxid, code, p[reply:])
	}
	u, ok := w.sent[xid]
	sent := u.at
	if ok {
		delete(w.sent, xid)
		w.ahead -= u.size
		be.PutUint32(p, uint32(u.xid))
	}
	if xid == xidPing && len(w.pings) > 0 {
		sent, ok = w.pings[0], true
		w.pings = w.pings[1:]
	}
	n, both := w.creates[xid], w.both[xid]
	delete(w.creates, xid)
	delete(w.both, xid)
	w.mu.Unlock()
	if xid == xidAuth && code != 0 {
		w.s.die(errAuth)
		return nil, errAuth
	}
	if ok {
		w.s.contact.touched(sent)
	}
	if xid >= 0 {
		w.s.saw(zxid)
	}
	be.PutUint64(p[4:], 0)
	made := code == 0
	if made && both {
		var err error
		if p, made, err = asCreated(p); err != nil {
			return nil, err
		}
	}
	if made && n != nil {
		n.czxid.Store(zxid)
	}
	return p, nil
}

// hand gives an answer to the call that it is for. The caller holds w.mu, which is released.
func (w *wire) hand(xid int32, zxid uint64, code int32, body []byte) error {
	c := w.calls[xid]
	if c == nil {
		w.mu.Unlock()
		return errFrame
	}
	delete(w.calls, xid)
	w.ahead -= c.size
	at := c.writtenAt
	w.mu.Unlock()
	w.s.contact.touched(at)
	w.s.saw(zxid)
	a := answer{zxid: zxid, body: append([]byte(nil), body...), err: replyError(code)}
	w.mu.Lock()
	late := c.answeredLocked(a)
	w.mu.Unlock()
	if late != nil {
		late()
	}
	return nil
}

// saw notes the latest zxid that a server told. One goroutine at a time calls it: connections follow each other.
func (s *session) saw(zxid uint64) {
	if seen := int64(zxid); seen > s.zxid.Load() {
		s.zxid.Store(seen)
	}
}

// SetReadDeadline bounds the handshake, for which the library would wait for several times the session's timeout.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	shaken := w.shaken
	w.mu.Unlock()
	if !shaken {
		t = time.Now().Add(w.s.handshakeLimit())
	}
	return w.Conn.SetReadDeadline(t)
}
