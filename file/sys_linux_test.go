package file

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/backend"
)

func TestParseOffsets(t *testing.T) {
	for s, want := range map[string]int64{
		"monotonic           0         0\nboottime            0         0\n": 0,
		"monotonic  -86400 500\nboottime 7 0\n":                              -86400*int64(time.Second) + 500,
		"boottime 7 0\nmonotonic 3 0":                                        3 * int64(time.Second),
		"":                                                                   0, "monotonic x 0\n": 0, "monotonic 1\n": 0,
	} {
		if got := parseOffsets(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

// The store's clock is the clock of Go's timers, because a holder's deadline and its record must agree.
func TestClockIsGos(t *testing.T) {
	monotonic, err := hostClock()
	if err != nil {
		t.Fatal(err)
	}
	t1, m1 := time.Now(), monotonic()
	time.Sleep(20 * time.Millisecond) // sleeps: both clocks must advance
	m2, t2 := monotonic(), time.Now()
	if store, gos := time.Duration(m2-m1), t2.Sub(t1); store > gos || store < 20*time.Millisecond {
		t.Errorf("%v passed by the store's clock, %v by Go's", store, gos)
	}
}

func TestNetworkFileSystems(t *testing.T) {
	if _, err := examineFS(t.TempDir()); err != nil {
		t.Errorf("temporary directory: %v", err)
	}
	for _, magic := range []uint32{unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC} {
		if networkFS[magic] == "" {
			t.Errorf("%#x is not known", magic)
		}
	}
	// For a missing directory, the error is that of the kernel, not ErrUnsupported.
	if _, err := examineFS("/nowhere/at/all"); !errors.Is(err, unix.ENOENT) || errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("missing directory: %v", err)
	}
}
