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

// What frames are about, of the protocol.
const (
	opCreate   = 1
	opAuth     = 100
	opSetWatch = 101 // the watches there were, on a new connection

	xidAuth = -4
)

const mostFrame = 64 << 20

var (
	errExpired    = errors.New("the session has expired")
	errAuth       = errors.New("authentication failed")
	errFrame      = errors.New("a frame is malformed")
	be            = binary.BigEndian
	handshakeMost = 2 * time.Second
)

// handshakeFirst is how long each of several servers gets at first while there is no session that could end meanwhile, and a
// request waits for one: longer where it took long on opening, as over a slow link.
const handshakeFirst = 500 * time.Millisecond

// A wire is the connection of a session. All requests are the library's. The wire sees every frame, and so what the library does not
// tell: the timeout that was negotiated, when something was heard, the zxid of a create. It holds the library to one session, and mends
// what is wrong in it (conn.go of v1.0.4):
//
//   - recvLoop writes lastZxid (849) while sendSetWatches (614) reads it, a data race, and with a zxid too new the servers would tell
//     nothing of what happened in between: the wire keeps zxids to itself, and enters them into requests. (TestReconnectTellsWhatWasSeen,
//     TestBrokenConnectionIsReplaced)
//   - authenticate (683) waits for the answer to a handshake for ten times two thirds of the session's timeout: see SetReadDeadline.
//     (TestOpensPastHungServer, TestNewSessionLeavesHungServer)
//   - AddAuth (967) is a request like others, which may come after them, or not at all: the wire sends it with each handshake.
//     (TestDigest)
type wire struct {
	net.Conn
	s     *session
	begun time.Time // before the handshake was sent
	seen  int64     // the session's zxid then

	// Of the reading goroutine.
	in    *bufio.Reader
	frame []byte // what is left of the frame being read
	buf   []byte

	mu      sync.Mutex
	shaken  bool                // the handshake is over
	asked   time.Time           // when the first sign of life was given since a frame came last; zero before
	creates map[int32]*creating // under way, by xid
}

func newWire(c net.Conn, s *session) *wire {
	return &wire{Conn: c, s: s, in: bufio.NewReader(c), creates: make(map[int32]*creating)}
}

// Write takes one whole frame, as the library writes them, and passes it on. It may change it.
func (w *wire) Write(p []byte) (int, error) {
	const size = 4
	if len(p) < size || len(p) != size+int(be.Uint32(p)) {
		return 0, errFrame
	}
	if err := w.writeFrame(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

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
	switch op {
	case opSetWatch:
		const end = least + 8
		if len(p) < end {
			return errFrame
		}
		p = append([]byte(nil), p...)
		be.PutUint64(p[least:], uint64(w.seen))
	case opCreate:
		if c, ok := w.s.creating.Load(framePath(p[least:])); ok {
			return w.writeCreate(p, xid, c.(*creating))
		}
	}
	_, err := w.Conn.Write(p)
	return err
}

// A creating is a create under way, of which the wire tells what the library does not.
type creating struct {
	written func() // called when it has been written; must not block
	zxid    uint64 // of the answer
}

func (w *wire) writeCreate(p []byte, xid int32, c *creating) error {
	w.mu.Lock()
	w.creates[xid] = c
	w.mu.Unlock()
	_, err := w.Conn.Write(p)
	if err == nil {
		c.written()
	}
	return err
}

// framePath is the string at the beginning of a body.
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

// writeHandshake sends the request for a session, which the library makes by itself whenever it is without one.
func (w *wire) writeHandshake(p []byte) error {
	const (
		zxidAt = 4 + 4          // behind length, version
		idAt   = zxidAt + 8 + 4 // and timeout
		idEnd  = idAt + 8
	)
	if len(p) < idEnd {
		return errFrame
	}
	if fresh := be.Uint64(p[idAt:]) == 0; !w.s.mayShake(fresh) {
		err := errAbandoned
		if fresh { // the library asks for a new session because a server has answered that the last one expired
			err = errExpired
		}
		w.s.die(err)
		return err
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

// unanswered notes a sign of life, and returns for how long the first one has gone unanswered since a frame came last.
func (w *wire) unanswered(sent time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked.IsZero() {
		w.asked = sent
	}
	return sent.Sub(w.asked)
}

// Read serves what the library reads: whole frames, which were looked at before.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.frame) == 0 {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.frame)
	w.frame = w.frame[n:]
	return n, nil
}

func (w *wire) next() error {
	const size = 4
	head, err := w.in.Peek(size)
	if err != nil {
		return err
	}
	n := be.Uint32(head)
	if n > mostFrame {
		return errFrame
	}
	w.buf = slices.Grow(w.buf[:0], size+int(n))[:size+int(n)]
	if _, err := io.ReadFull(w.in, w.buf); err != nil {
		return err
	}
	if err := w.look(w.buf[size:]); err != nil {
		return err
	}
	w.frame = w.buf
	return nil
}

// look reads an answer, and takes its zxid out.
func (w *wire) look(p []byte) error {
	const reply = 4 + 8 + 4 // a handshake has as much
	if len(p) < reply {
		return errFrame
	}
	xid, zxid, code := int32(be.Uint32(p)), be.Uint64(p[4:]), int32(be.Uint32(p[12:]))
	w.mu.Lock()
	w.asked = time.Time{}
	first, create := !w.shaken, w.creates[xid]
	w.shaken = true
	delete(w.creates, xid)
	w.mu.Unlock()
	switch {
	case first:
		timeout := time.Duration(int32(be.Uint32(p[4:]))) * time.Millisecond
		w.s.established(w, int64(be.Uint64(p[8:])), timeout)
		return nil
	case xid == xidAuth && code != 0:
		w.s.die(errAuth)
		return errAuth
	case xid >= 0:
		w.s.saw(zxid)
	}
	if create != nil {
		create.zxid = zxid
	}
	be.PutUint64(p[4:], 0)
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
