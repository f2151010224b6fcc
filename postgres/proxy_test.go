package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

// A proxy counts requests, and injects faults.
type proxy struct {
	*storetest.Relay

	mu     sync.Mutex
	made   int  // connections for sessions; connections for cancel requests do not count
	cancel int  // cancel requests
	syncs  int  // requests: the Sync, Query and FunctionCall messages, each of which gets a reply
	muteAt int  // mute is set when syncs reaches this number; 0 means never
	silent bool // nothing is passed on, in either direction, and connections stay open
	mute   bool // replies are dropped
	muted  int  // pieces of replies that were dropped because of mute
	// the number of bytes that are lost at the end of the next request; everything that its client sends after them is
	// lost, too, and the server does not see the connection end
	tail  int
	hole  bool // the next reply and all later data of its client are lost; the server does not see the end
	reset bool // the next reply is lost, and its connection reset; the server does not see the end

	keep bool // the server does not see any connection end

	kept net.Conn // the server's end of a connection that stays open after the client's end
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := new(proxy)
	p.Relay = storetest.NewRelay(t, "127.0.0.1:0", target, func(r *storetest.Relay, client, server net.Conn) {
		r.Go(func() { p.copy(server, client, (&frames{}).requests) })
		p.copy(client, server, nil)
	})
	return p
}

func (p *proxy) copy(to, from net.Conn, count func([]byte) int) {
	client, server := to, from
	if count != nil {
		client, server = from, to
	}
	defer p.end(client, server)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		const cancelRequest = 16                              // bytes
		if count != nil && n > cancelRequest && buf[0] == 0 { // a new connection's first message begins with 0
			p.made++
		}
		const cancelCode = 80877102
		if count != nil && n >= cancelRequest && buf[0] == 0 && binary.BigEndian.Uint32(buf[4:]) == cancelCode {
			p.cancel++
		}
		if p.reset && count == nil && n > 0 {
			p.reset, p.kept = false, from
			_ = to.(*net.TCPConn).SetLinger(0)
			p.mu.Unlock()
			return
		}
		if p.tail > 0 && count != nil && n > p.tail && buf[0] != 0 {
			n, p.tail, p.kept = n-p.tail, 0, to
			p.mu.Unlock()
			_, _ = to.Write(buf[:n])
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if p.hole && count == nil && n > 0 {
			p.hole, p.kept, n = false, from, 0
		}
		dropped := p.silent || p.mute && count == nil || to == p.kept
		if count != nil {
			p.syncs += count(buf[:n])
			p.mute = p.mute || p.muteAt > 0 && p.syncs >= p.muteAt
		}
		if p.mute && count == nil && n > 0 {
			p.muted++
		}
		p.mu.Unlock()
		if n > 0 && !dropped {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// end closes both ends of a connection, but leaves a kept connection to the server open.
func (p *proxy) end(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = client.Close()
	if server != p.kept && !p.keep {
		_ = server.Close()
	}
}

// set changes the faults with f, under the mutex.
func (p *proxy) set(f func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// requests returns the number of requests since the last call.
func (p *proxy) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.syncs
	p.syncs = 0
	return n
}

// frames splits a client's data into messages: a startup message without a type, and then messages that begin with a
// type and a length.
type frames struct {
	started bool
	rest    bytes.Buffer
}

func (f *frames) requests(p []byte) (n int) {
	f.rest.Write(p)
	for {
		head := 0
		if f.started {
			head = 1
		}
		b := f.rest.Bytes()
		if len(b) < head+4 {
			return n
		}
		size := head + int(b[head])<<24 + int(b[head+1])<<16 + int(b[head+2])<<8 + int(b[head+3])
		if len(b) < size {
			return n
		}
		if f.started && (b[0] == 'S' || b[0] == 'Q' || b[0] == 'F') {
			n++
		}
		f.started = true
		_, _ = io.CopyN(io.Discard, &f.rest, int64(size))
	}
}
