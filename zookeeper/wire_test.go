package zookeeper

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// The library writes whole frames, which are looked at, and one of which is changed. Anything else would pass unseen, and is refused.
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
	w := newWire(ours, newSession(b, b.limits.longest))
	hand := append(be.AppendUint32(nil, 45), make([]byte, 45)...)
	watches := append(header(2, opSetWatch, 20), make([]byte, 20)...)
	list := [][]byte{
		hand,
		append(header(1, opExists, 6), appendString(nil, "/a")...),
		header(-2, 11, 0), // a ping
		watches,
		append(header(3, opCreate, 21), append(appendString(nil, "/b"), "the rest of it."...)...),
	}
	var want []byte
	for i, f := range list {
		for _, p := range [][]byte{{}, f[:3], f[:len(f)-1], append(bytes.Clone(f), 0), append(bytes.Clone(f), f...)} {
			if n, err := w.Write(p); n != 0 || !errors.Is(err, errFrame) {
				t.Errorf("frame %d, %d bytes: %d, %v", i, len(p), n, err)
			}
		}
		if n, err := w.Write(bytes.Clone(f)); n != len(f) || err != nil {
			t.Fatalf("frame %d: %d, %v", i, n, err)
		}
		w.shaken, w.seen = true, 1
		want = append(want, f...)
	}
	_ = ours.Close()
	all := <-got
	at := bytes.Index(want, watches) + 4 + 8 // length, xid, kind
	if be.PutUint64(want[at:], 1); !bytes.Equal(all, want) {
		t.Errorf("passed %q, want %q", all, want)
	}
}

func appendString(p []byte, s string) []byte {
	return append(be.AppendUint32(p, uint32(len(s))), s...)
}

// header begins a frame with so many more bytes.
func header(xid, op int32, more int) []byte {
	p := be.AppendUint32(nil, uint32(8+more))
	p = be.AppendUint32(p, uint32(xid))
	return be.AppendUint32(p, uint32(op))
}
