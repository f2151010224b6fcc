package zookeeper

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
)

// framePath returns the path at the beginning of a body, or an empty string if there is none.
func framePath(body []byte) string {
	path, _, _ := cutText(body)
	return path
}

// Write accepts only whole frames, as the library writes them. In a request for watches, it sets the zxid.
func TestWritesAreFrames(t *testing.T) {
	t.Parallel()
	ours, server := net.Pipe()
	defer server.Close()
	got := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(server)
		got <- all
	}()
	b := &Backend{limits: defaultLimits()}
	c := newConnection(ours, newSession(b, b.limits.longest))
	hand := append(be.AppendUint32(nil, 45), make([]byte, 45)...)
	watches := append(header(2, opSetWatch, 20), make([]byte, 20)...)
	list := [][]byte{
		hand,
		append(header(1, opExists, 6), appendText(nil, "/a")...),
		header(-2, opPing, 0),
		watches,
		append(header(3, opCreate, 21), append(appendText(nil, "/b"), "the rest of it."...)...),
	}
	var want []byte
	for i, f := range list {
		for _, p := range [][]byte{{}, f[:3], f[:len(f)-1], append(bytes.Clone(f), 0), append(bytes.Clone(f), f...)} {
			if n, err := c.Write(p); n != 0 || !errors.Is(err, errFrame) {
				t.Errorf("frame %d, %d bytes: %d, %v", i, len(p), n, err)
			}
		}
		if n, err := c.Write(bytes.Clone(f)); n != len(f) || err != nil {
			t.Fatalf("frame %d: %d, %v", i, n, err)
		}
		c.established.Store(true)
		c.zxidAtHandshake = 1
		want = append(want, f...)
	}
	_ = ours.Close()
	all := <-got
	at := bytes.Index(want, watches) + 4 + 8 // length, xid, kind
	if be.PutUint64(want[at:], 1); !bytes.Equal(all, want) {
		t.Errorf("passed %q, want %q", all, want)
	}
}

// A create is sent together with a read of the queue. The library receives only the reply to the create. The creation
// receives the names, or a closed channel if the connection ends first.
func TestCreateCarriesRead(t *testing.T) {
	t.Parallel()
	b := &Backend{limits: defaultLimits()}
	for _, answered := range []bool{true, false} {
		ours, server := net.Pipe()
		s := newSession(b, b.limits.longest)
		c := newConnection(ours, s)
		c.established.Store(true)
		n := &creation{dir: "/a", names: make(chan []string, 1)}
		s.creations.Store("/a/b", n)
		frame := append(header(7, opCreate, 8+4), append(appendText(nil, "/a/b"), "rest"...)...)
		sent := make(chan error, 1)
		go func() { _, err := c.Write(frame); sent <- err }()
		create, err := readFrame(server)
		if err != nil || !bytes.Equal(create, frame[4:]) {
			t.Fatalf("the create was sent as %q, %v", create, err)
		}
		read, err := readFrame(server)
		if err != nil || int32(be.Uint32(read[4:])) != opChildren || framePath(read[8:]) != "/a" {
			t.Fatalf("the read was sent as %q, %v", read, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		reply := func(xid, zxid uint32, body []byte) {
			p := be.AppendUint32(nil, uint32(16+len(body)))
			p = be.AppendUint64(be.AppendUint32(p, xid), uint64(zxid))
			_, _ = server.Write(append(be.AppendUint32(p, 0), body...))
		}
		go func() {
			reply(7, 42, appendText(nil, "/a/b0"))
			if answered {
				names := appendText(appendText(be.AppendUint32(nil, 2), "x"), "b0")
				reply(be.Uint32(read), 42, append(names, make([]byte, 68)...)) // and a stat
				reply(8, 43, nil)
			}
			server.Close()
		}()
		var xids []uint32
		for {
			p, err := readFrame(c)
			if err != nil {
				break
			}
			xids = append(xids, be.Uint32(p))
		}
		_ = c.Close()
		names, ok := <-n.names
		if n.zxid != 42 || ok != answered {
			t.Errorf("answered %v: zxid %d, names %q, %v", answered, n.zxid, names, ok)
		}
		if answered && (!slices.Equal(xids, []uint32{7, 8}) || !slices.Equal(names, []string{"x", "b0"})) {
			t.Errorf("the library got the replies %v, the creation %q", xids, names)
		}
	}
}

// header returns the beginning of a frame in which more bytes follow.
func header(xid, op int32, more int) []byte {
	p := be.AppendUint32(nil, uint32(8+more))
	p = be.AppendUint32(p, uint32(xid))
	return be.AppendUint32(p, uint32(op))
}
