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

// Images of various lengths, growing and shrinking, replace each other.
func TestImageRoundTrip(t *testing.T) {
	fd := tempFD(t)
	var img image
	for i, size := range []int{
		0, 1, 100, slotSize - headSize, slotSize - headSize + 1, 5000, 4999, 5001, 100_000, 10, 99_999, 99_999, 3, 2000, 0,
	} {
		body := bytes.Repeat([]byte{byte(i + 1)}, size)
		if err := writeImage(fd, img, sizeOf(t, fd), body); err != nil {
			t.Fatal(err)
		}
		got, err := readImage(fd)
		if err != nil || !bytes.Equal(got.body, body) || got.seq != img.seq+1 {
			t.Fatalf("body %d of %d bytes: read %d bytes, seq %d, %v", i, size, len(got.body), got.seq, err)
		}
		img = got
	}
}

// If a write is cut short at any point, the file contains either the old or the new image.
func TestTornWrite(t *testing.T) {
	for _, sizes := range [][2]int{{80, 90}, {80, 3000}, {3000, 80}, {3000, 2900}, {2900, 3000}} {
		before := filled(t, sizes[0])
		oldBody := bytes.Repeat([]byte{'o'}, sizes[0])
		newBody := bytes.Repeat([]byte{'n'}, sizes[1])
		after := append([]byte(nil), before...)
		writes := recordWrites(t, before, newBody)
		for _, w := range writes {
			for cut := 0; cut <= len(w.p); cut += max(1, len(w.p)/997) {
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

// If the first write of a file is cut short, the file still counts as new, and the write can be repeated.
func TestTornFirstWrite(t *testing.T) {
	whole := filled(t, 50)
	for cut := range len(whole) {
		img, err := readBytes(t, whole[:cut])
		if err != nil || img.seq != 0 || len(img.body) != 0 {
			t.Fatalf("%d of %d bytes: %+v %v, want a new file", cut, len(whole), img, err)
		}
		fd := tempFD(t)
		if err := writeAt(fd, whole[:cut], 0); err != nil {
			t.Fatal(err)
		}
		if err := writeImage(fd, img, int64(cut), []byte("again")); err != nil {
			t.Fatal(err)
		}
		if img, err := readImage(fd); err != nil || string(img.body) != "again" {
			t.Fatalf("%d of %d bytes, and again: %q %v", cut, len(whole), img.body, err)
		}
	}
}

// If one image of a bucket is damaged, the other one is read. If both are damaged, the bucket is refused, because its
// leases are unknown.
func TestDamagedImages(t *testing.T) {
	whole := filled(t, 50)
	fd := tempFD(t)
	if err := writeAt(fd, whole, 0); err != nil {
		t.Fatal(err)
	}
	old, err := readImage(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeImage(fd, old, 0, []byte("new")); err != nil {
		t.Fatal(err)
	}
	both := readAll(t, fd)
	for _, slot := range slotStarts {
		both[slot+headSize] ^= 1
		img, err := readBytes(t, both)
		if slot == slotA && (err != nil || string(img.body) != "new") {
			t.Errorf("the other image is whole: %q %v", img.body, err)
		}
		if slot == slotB && !errors.Is(err, errTorn) {
			t.Errorf("no image is whole: %+v %v", img, err)
		}
	}
}

// A file that has grown for long images shrinks when the images become short.
func TestFileShrinks(t *testing.T) {
	fd := tempFD(t)
	var img image
	for _, size := range []int{1 << 20, 1 << 20, 1 << 20, 100, 100} {
		if err := writeImage(fd, img, sizeOf(t, fd), make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		var err error
		if img, err = readImage(fd); err != nil || len(img.body) != size {
			t.Fatalf("%d bytes: read %d, %v", size, len(img.body), err)
		}
		if got := sizeOf(t, fd); got > pageSize+2<<20 || size == 100 && got > pageSize {
			t.Errorf("a body of %d bytes in a file of %d", size, got)
		}
	}
}

func sizeOf(t testing.TB, fd int) int64 {
	t.Helper()
	info, err := infoOf(fd)
	if err != nil {
		t.Fatal(err)
	}
	return info.size
}

type write struct {
	off int64
	p   []byte
}

// filled returns the content of a file with one image, which consists of the letter o.
func filled(t *testing.T, size int) []byte {
	t.Helper()
	fd := tempFD(t)
	if err := writeImage(fd, image{}, 0, bytes.Repeat([]byte{'o'}, size)); err != nil {
		t.Fatal(err)
	}
	return readAll(t, fd)
}

// recordWrites writes body to a copy of a file, and returns the writes in their order: the body, if it does not fit
// into its slot, and then the slot.
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
		for off := pageSize; off+len(body) <= len(all); off++ {
			if bytes.Equal(all[off:off+len(body)], body) {
				long = []write{{int64(off), body}}
				return
			}
		}
		t.Error("the body is not there before its head")
	}
	defer func() { stopAt = nil }()
	if err := writeImage(fd, old, 0, body); err != nil {
		t.Fatal(err)
	}
	all := readAll(t, fd)
	at := slotStarts[1-old.slot]
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
