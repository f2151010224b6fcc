//go:build linux || darwin

package file

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

var records = []record{
	{},
	{leases: []lease{{"o", 1<<55 - 1, 1 << 62, false}}},
	{claimBy: 7, queue: []queued{{"a", 1, 2, false}, {"b\x00\xff", ^uint64(0), 1 << 63, true}}},
	{leases: []lease{{strings.Repeat("x", 255), 3, -5, false}}, queue: queueOf("ras", 1, 2, 3)},
	{leases: []lease{{"r", 4, 1 << 62, true}}},
	{
		leases: []lease{{"r", 4, 100, true}, {strings.Repeat("s", 255), 0, -5, true}, {"t", 1<<55 - 1, 7, true}},
		queue:  queueOf("as", 1, 2),
	},
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range records {
		got, err := decodeRecord(r.append(nil))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v (%v)", r, got, err)
		}
	}
}

// A write of one key leaves the other keys of its bucket unchanged, and removes those that have expired.
func TestBucket(t *testing.T) {
	boot := bootID{1}
	full := record{last: 7, leases: leasesOf("o", 100)}
	waited := record{last: 8, leases: leasesOf("p", 100), queue: queueOf("ab", 1, 2)}
	readers := record{last: 6, leases: leasesOf("rs", 99, 100)}
	var body []byte
	put := func(key string, r record, now int64) {
		t.Helper()
		b, _, err := decodeBucket(body, boot, now)
		if err != nil {
			t.Fatal(err)
		}
		body = b.encode(boot, now, key, &r)
	}
	want := func(key string, now int64, want record) {
		t.Helper()
		b, _, err := decodeBucket(body, boot, now)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.record(key, now)
		want.last = 8
		if err != nil || !reflect.DeepEqual(r, want) {
			t.Errorf("%s at %d: %+v %v, want %+v", key, now, r, err, want)
		}
	}
	put("full", full, 1)
	put("waited", waited, 1)
	put("readers", readers, 1)
	put("other", record{last: 3, leases: leasesOf("x", 1000)}, 1)
	want("full", 99, full)
	want("full", 100, record{})
	want("waited", 99, waited)
	want("waited", 100, record{queue: waited.queue})
	want("none", 1, record{})
	want("readers", 98, readers)
	want("readers", 99, record{leases: readers.leases[1:]})
	want("readers", 100, record{})

	size := len(body)
	put("other", record{}, 100) // the key is free; the write also drops expired entries
	if len(body) >= size/2+20 || bytes.Contains(body, []byte("full")) || bytes.Contains(body, []byte("other")) {
		t.Errorf("%d of %d bytes are left: %q", len(body), size, body)
	}
	want("waited", 100, record{queue: waited.queue})
	put("other", record{}, 100+2*int64(claimGrace)+int64(abandonedAfter)) // no waiter has claimed the key
	want("waited", 100, record{})
	boot = bootID{2}
	want("readers", 1, record{})
	put("after a reboot", record{last: 5, leases: leasesOf("o", 9)}, 1)
	want("after a reboot", 1, record{leases: leasesOf("o", 9)})
}

// FuzzBucket checks that no input crashes the decoders, and that a decoded record stays the same when it is encoded and
// decoded again.
func FuzzBucket(f *testing.F) {
	boot := bootID{9}
	for _, r := range records {
		body := (&bucket{token: 3}).encode(boot, -9, "k", &r)
		f.Add(body)
		f.Add(body[:len(body)-1])
	}
	f.Add(append(boot[:], 0xff, 0xff))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, _, err := decodeBucket(body, boot, -9)
		if err != nil {
			return
		}
		r, err := b.record("k", -9)
		if err != nil {
			return
		}
		for _, l := range r.leases {
			if len(l.owner) > backend.MaxOwnerLen {
				t.Errorf("owner of %d bytes", len(l.owner))
			}
		}
		if len(r.leases) == 0 && len(r.queue) == 0 { // nothing to keep
			r.claimBy = 0
		}
		if b, _, err = decodeBucket(b.encode(boot, -9, "k", &r), boot, -9); err != nil {
			t.Fatal(err)
		}
		r2, err := b.record("k", -9)
		r2.last = r.last
		if err != nil || r.dropAt() > -9 && !reflect.DeepEqual(r2, r) {
			t.Errorf("%x: %+v became %+v (%v)", body, r, r2, err)
		}
	})
}

// FuzzImage checks that no input crashes the reader, and that an image that was read can be replaced.
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
		if err := writeImage(fd, img, int64(len(b)), []byte("next")); err != nil {
			t.Fatal(err)
		}
		if next, err := readImage(fd); err != nil || string(next.body) != "next" {
			t.Errorf("%q %v", next.body, err)
		}
	})
}
