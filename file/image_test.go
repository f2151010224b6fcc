//go:build linux || darwin

package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func tempFD(t testing.TB) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	fd, err := openAt(path, openNew, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFD(fd) })
	return fd
}

// Bodies of all lengths around the size of a slot, growing and shrinking, replace each other.
func TestImageRoundTrip(t *testing.T) {
	fd := tempFD(t)
	var img image
	for i, size := range []int{
		0, 1, 100, slotSize - headSize, slotSize - headSize + 1, 5000, 4999, 5001, 100_000, 10, 99_999, 99_999, 3, 2000, 0,
	} {
		body := bytes.Repeat([]byte{byte(i + 1)}, size)
		if err := writeImage(fd, img, body); err != nil {
			t.Fatal(err)
		}
		got, err := readImage(fd)
		if err != nil || !bytes.Equal(got.body, body) || got.seq != img.seq+1 {
			t.Fatalf("body %d of %d bytes: read %d bytes, seq %d, %v", i, size, len(got.body), got.seq, err)
		}
		img = got
	}
}

// Whatever part of a write arrives, the file holds the old image or the new one.
func TestTornWrite(t *testing.T) {
	for _, sizes := range [][2]int{{80, 90}, {80, 3000}, {3000, 80}, {3000, 2900}, {2900, 3000}} {
		before := filled(t, sizes[0])
		oldBody := bytes.Repeat([]byte{'o'}, sizes[0])
		newBody := bytes.Repeat([]byte{'n'}, sizes[1])
		after := append([]byte(nil), before...)
		writes := recordWrites(t, before, newBody)
		for _, w := range writes {
			for cut := 0; cut <= len(w.p); cut += max(1, len(w.p)/97) {
				torn := splice(after, w.p[:cut], w.off)
				img, err := readBytes(t, torn)
				if err != nil || !bytes.Equal(img.body, oldBody) && !bytes.Equal(img.body, newBody) {
					t.Fatalf("sizes %v, %d of %d bytes at %d: %d bytes, %v", sizes, cut, len(w.p), w.off, len(img.body), err)
				}
			}
			after = splice(after, w.p, w.off)
		}
		if img, err := readBytes(t, after); err != nil || !bytes.Equal(img.body, newBody) {
			t.Fatalf("sizes %v: the whole write reads as %d bytes, %v", sizes, len(img.body), err)
		}
	}
}

// The first write of a file, cut short, is no record at all.
func TestTornFirstWrite(t *testing.T) {
	whole := filled(t, 50)
	for cut := range len(whole) {
		if _, err := readBytes(t, whole[:cut]); !errors.Is(err, errTorn) {
			t.Fatalf("%d of %d bytes: %v, want errTorn", cut, len(whole), err)
		}
	}
}

type write struct {
	off int64
	p   []byte
}

// filled is a file with one image of 'o's.
func filled(t *testing.T, size int) []byte {
	t.Helper()
	fd := tempFD(t)
	if err := writeImage(fd, image{}, bytes.Repeat([]byte{'o'}, size)); err != nil {
		t.Fatal(err)
	}
	return readAll(t, fd)
}

// recordWrites finds out what writing body to a file changes, as the writes in their order: a body out of its slot, a head.
func recordWrites(t *testing.T, before, body []byte) []write {
	t.Helper()
	fd := tempFD(t)
	if err := writeAt(fd, before, 0); err != nil {
		t.Fatal(err)
	}
	old, err := readImage(fd)
	if err != nil {
		t.Fatal(err)
	}
	var long []write
	stopAt = func(string) { // between the two writes
		all := readAll(t, fd)
		for off := slotsSize; off+len(body) <= len(all); off++ {
			if bytes.Equal(all[off:off+len(body)], body) {
				long = []write{{int64(off), body}}
				return
			}
		}
		t.Error("the body is not there before its head")
	}
	defer func() { stopAt = nil }()
	if err := writeImage(fd, old, body); err != nil {
		t.Fatal(err)
	}
	all := readAll(t, fd)
	at := (1 - old.slot) * slotSize
	end := min(at+slotSize, len(all))
	return append(long, write{int64(at), all[at:end]})
}

func readAll(t *testing.T, fd int) []byte {
	t.Helper()
	buf := make([]byte, 1<<20)
	n, err := readAt(fd, buf, 0)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

func splice(b, p []byte, off int64) []byte {
	out := append([]byte(nil), b...)
	for len(out) < int(off)+len(p) && len(p) > 0 {
		out = append(out, 0)
	}
	copy(out[min(int(off), len(out)):], p)
	return out
}

func readBytes(t testing.TB, b []byte) (image, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := openAt(path, openRead, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(fd)
	return readImage(fd)
}
