package zookeeper

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// A fakeServer grants sessions over pipes, so a test of time limits can run under synctest. It has no nodes: it answers
// that each node that a client creates exists already, and that each node that a client reads is missing.
type fakeServer struct {
	shortest, longest time.Duration // of its sessions

	mu      sync.Mutex
	silent  bool                  // it reads requests, and answers none
	expired bool                  // all sessions have expired
	creates bool                  // it answers that it has created each node
	heard   func(op int32)        // called under mu for each request except handshakes, unless nil
	id      uint64                // of the latest session
	open    map[net.Conn]struct{} // until the client closes them
}

func newFakeServer(shortest, longest time.Duration) *fakeServer {
	return &fakeServer{shortest: shortest, longest: longest, open: make(map[net.Conn]struct{})}
}

// client returns a client of the server. Two names keep it from sending four-letter commands.
func (f *fakeServer) client(t *testing.T) *Backend {
	t.Helper()
	b, err := New(t.Context(), []string{"a:1", "b:1"}, &Options{Dial: f.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.cut)
	return b
}

func (f *fakeServer) dial(_, _ string, _ time.Duration) (net.Conn, error) {
	ours, theirs := net.Pipe()
	f.mu.Lock()
	f.open[theirs] = struct{}{}
	f.mu.Unlock()
	go f.serve(theirs)
	return ours, nil
}

// set changes what the server does.
func (f *fakeServer) set(change func(f *fakeServer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// connections returns how many connections the clients have not closed.
func (f *fakeServer) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// cut closes all connections.
func (f *fakeServer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.open {
		_ = c.Close()
	}
}

// serve answers the requests of a connection until the client closes it. Even if it has answered that the session has
// expired, it leaves the connection to the client.
func (f *fakeServer) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, c)
	}()
	request, err := readFrame(c)
	for reply := f.handshake; err == nil; reply = f.reply {
		f.mu.Lock()
		answer := reply(request)
		if f.silent {
			answer = nil
		}
		f.mu.Unlock()
		if answer != nil {
			if _, err := c.Write(append(be.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
				return
			}
		}
		request, err = readFrame(c)
	}
}

// handshake returns the answer to a handshake.
func (f *fakeServer) handshake(request []byte) []byte {
	const timeoutAt, idAt = 4 + 8, 4 + 8 + 4
	timeout := time.Duration(int32(be.Uint32(request[timeoutAt:]))) * time.Millisecond
	timeout = min(max(timeout, f.shortest), f.longest)
	id := be.Uint64(request[idAt:])
	switch {
	case id == 0:
		f.id++
		id = f.id
	case f.expired:
		id, timeout = 0, 0
	}
	answer := be.AppendUint32(nil, 0)
	answer = be.AppendUint32(answer, uint32(timeout/time.Millisecond))
	answer = be.AppendUint64(answer, id)
	return append(be.AppendUint32(answer, 16), make([]byte, 16)...) // a password
}

// reply returns the reply to any other request.
func (f *fakeServer) reply(request []byte) []byte {
	const xidSize, opEnd, noNode, nodeExists = 4, 8, -101, -110
	op := int32(be.Uint32(request[xidSize:]))
	if f.heard != nil {
		f.heard(op)
	}
	code, body := int32(noNode), []byte(nil)
	switch {
	case op == opPing, op == opClose:
		code = 0
	case op == opCreate && f.creates:
		code, body = 0, appendText(nil, framePath(request[opEnd:])+"0000000001")
	case op == opCreate, op == opContainer:
		code = nodeExists
	}
	answer := be.AppendUint64(slices.Clone(request[:xidSize]), 0)
	return append(be.AppendUint32(answer, uint32(code)), body...)
}

// connected returns a session with the longest timeout that is connected. The caller is its user.
func (b *Backend) connected(t *testing.T) *session {
	t.Helper()
	s, err := b.checkOut(b.limits.longest)
	if err == nil {
		_, err = s.whenConnected(t.Context(), time.Now().Add(soon))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A fake server's sessions last until they expire or their client closes them.
func TestFakeServer(t *testing.T) {
	t.Parallel()
	f := newFakeServer(4*time.Second, 40*time.Second)
	b := f.client(t)
	s := b.connected(t)
	if b.limits != defaultLimits() || s.timeout != b.limits.longest {
		t.Errorf("limits %+v, a session of %v", b.limits, s.timeout)
	}
	f.cut()
	if _, err := s.childCount(t.Context(), rootPath); err == nil || !isReply(err) {
		t.Errorf("read after a break: %v", err)
	}
	f.set(func(f *fakeServer) { f.expired = true })
	f.cut()
	if _, err := s.childCount(t.Context(), rootPath); !errors.Is(err, errExpired) {
		t.Errorf("read after the expiry: %v", err)
	}
	b.checkIn(s)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
