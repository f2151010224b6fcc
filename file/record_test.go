//go:build linux || darwin

package file

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

var records = []record{
	{},
	{boot: bootID{1, 2, 3}, token: 1<<55 - 1, owner: "o", expires: 1 << 62},
	{owner: strings.Repeat("x", 255), expires: -5, claimBy: 7, queue: []queued{{"a", 1, 2}, {"b\x00\xff", ^uint64(0), 1 << 63}}},
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range records {
		got, err := decodeRecord(r.encode())
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v (%v)", r, got, err)
		}
	}
}

func TestRecordOfAnotherVersion(t *testing.T) {
	b := records[1].encode()
	b[1] = version + 1
	if _, err := decodeRecord(b); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("%v, want ErrUnsupported", err)
	}
}

// FuzzRecord: no bytes crash the decoders; what decodes is well-formed and keeps its meaning when it is written again.
func FuzzRecord(f *testing.F) {
	for _, r := range records {
		f.Add(r.encode())
		f.Add(r.encode()[:len(r.encode())-1])
	}
	f.Add(epoch{bootID{9}, -1, 1 << 60}.encode())
	f.Add([]byte{kindRecord, version, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRecord(b); err == nil {
			if len(r.owner) > backend.MaxOwnerLen {
				t.Errorf("owner of %d bytes", len(r.owner))
			}
			again, err := decodeRecord(r.encode())
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("%x: %+v became %+v (%v)", b, r, again, err)
			}
		}
		if e, err := decodeEpoch(b); err == nil {
			if again, err := decodeEpoch(e.encode()); err != nil || again != e {
				t.Errorf("%x: %+v became %+v (%v)", b, e, again, err)
			}
		}
	})
}

// FuzzImage: no file crashes the reader, and what it takes for an image can be replaced.
func FuzzImage(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0}, 4096))
	f.Add(append(magic[:], bytes.Repeat([]byte{0xff}, 60)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := readBytes(t, b)
		if err != nil {
			return
		}
		fd := tempFD(t)
		if err := writeAt(fd, b, 0); err != nil {
			t.Fatal(err)
		}
		if err := writeImage(fd, img, []byte("next")); err != nil {
			t.Fatal(err)
		}
		if next, err := readImage(fd); err != nil || string(next.body) != "next" {
			t.Errorf("%q %v", next.body, err)
		}
	})
}
