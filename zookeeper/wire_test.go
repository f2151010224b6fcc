package zookeeper

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// What reaches the server does not depend on the pieces in which the library writes it.
func TestWritesAreNoFrames(t *testing.T) {
	t.Parallel()
	frames := func() (list [][]byte) {
		add := func(xid, op int32, body []byte) {
			list = append(list, append(header(xid, op, len(body)), body...))
		}
		add(1, opExists, appendString(nil, "/a"))
		add(-2, 11, nil) // a ping
		add(2, opSetWatch, make([]byte, 20))
		add(3, opCreate, append(appendString(nil, "/b"), "the rest of it"...))
		return list
	}
	passed := func(shaken bool, pieces [][]byte) []byte {
		t.Helper()
		ours, server := net.Pipe()
		defer server.Close()
		got := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(server)
			got <- all
		}()
		b := &Backend{limits: defaultLimits()}
		w := newWire(ours, newSession(b, b.limits.longest))
		w.shaken, w.seen = shaken, 1
		for _, p := range pieces {
			if n, err := w.Write(bytes.Clone(p)); n != len(p) || err != nil {
				t.Fatalf("write of %d bytes: %d, %v", len(p), n, err)
			}
		}
		_ = ours.Close()
		return <-got
	}
	whole := passed(true, frames())
	all := bytes.Join(frames(), nil)
	if len(whole) != len(all) || bytes.Equal(whole, all) {
		t.Fatalf("%d bytes of %d, or nothing was changed on the way: nothing is tested", len(whole), len(all))
	}
	for size := 1; size <= len(all); size++ {
		var pieces [][]byte
		for rest := all; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			pieces = append(pieces, rest[:min(size, len(rest))])
		}
		if got := passed(true, pieces); !bytes.Equal(got, whole) {
			t.Errorf("in pieces of %d bytes: %q, want %q", size, got, whole)
		}
	}
	hand := append(be.AppendUint32(nil, 45), make([]byte, 45)...)
	if got := passed(false, [][]byte{hand[:3], hand[3:40], hand[40:]}); !bytes.Equal(got, hand) {
		t.Errorf("a handshake in pieces: %q, want %q", got, hand)
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
