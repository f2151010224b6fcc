//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

func openDir(t *testing.T, dir string) *Backend {
	t.Helper()
	b, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func acquire(b *Backend, key string, ttl time.Duration, wait bool) (backend.Lease, error) {
	return b.Acquire(context.Background(), backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait})
}

// A machine simulates a host that a test reboots and whose clocks it sets, while no operation is running.
type machine struct {
	t    *testing.T
	dir  string
	boot bootID
	up   time.Duration // the monotonic clock
	wall time.Time
}

func (m *machine) open() *Backend {
	m.t.Helper()
	s, err := openStore(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	s.boot = m.boot
	s.clock = func() int64 { return int64(m.up) }
	s.wall = func() time.Time { return m.wall }
	return newBackend(s)
}

func (m *machine) pass(d time.Duration) { m.up, m.wall = m.up+d, m.wall.Add(d) }

func (m *machine) reboot(up time.Duration) {
	m.boot[0]++
	m.up = up
}

// grant acquires and releases the key, so that the store keeps no record of it. It checks that the token is greater
// than last.
func (m *machine) grant(b *Backend, what string, last *uint64) {
	m.t.Helper()
	l, err := acquire(b, "k", time.Minute, false)
	if err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
	if l.Token() <= *last || l.Token() >= backend.TokenLimit {
		m.t.Errorf("%s: token %d after %d", what, l.Token(), *last)
	}
	*last = l.Token()
	if err := l.Release(context.Background()); err != nil {
		m.t.Fatal(err)
	}
}

// Steps of the wall clock do not change when the leases of readers end.
func TestReadersIgnoreWallClock(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), boot: bootID{1}, up: time.Hour, wall: time.Now()}
	b := m.open()
	defer b.Close()
	var last uint64
	for i, step := range []time.Duration{0, -365 * 24 * time.Hour, 365 * 24 * time.Hour} {
		m.wall = m.wall.Add(step)
		r := backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: time.Duration(i+1) * time.Minute, Shared: true}
		l, err := b.Acquire(t.Context(), r)
		if err != nil || l.Token() <= last {
			t.Fatalf("a reader after a step of %v: %v", step, err)
		}
		last = l.Token()
	}
	for want := 3; want >= 0; want-- {
		if h, err := b.Inspect(t.Context(), "k"); err != nil || h.Shared != want || want > 0 && h.Token != last {
			t.Errorf("%+v %v, want %d readers", h, err, want)
		}
		m.pass(time.Minute)
	}
	m.grant(b, "after the readers", &last)
}

// Tokens increase although the store keeps no record of a free key: across reboots, steps of the wall clock and the
// loss of the directory.
func TestTokensRise(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), boot: bootID{1}, up: time.Hour, wall: time.Now()}
	var last uint64
	step := func(what string) {
		b := m.open()
		m.grant(b, what, &last)
		m.grant(b, what+", again", &last)
		b.Close()
	}
	step("first")
	m.wall = m.wall.Add(-365 * 24 * time.Hour)
	step("after the wall clock stepped back by a year")
	m.reboot(time.Second)
	step("after a reboot with the wrong clock")
	m.pass(10 * time.Second)
	step("10 s later")
	m.reboot(0)
	m.wall = time.Time{}
	step("after a reboot without any clock")
	m.wall = time.Now().Add(time.Hour)
	m.reboot(time.Minute)
	step("after a reboot with the right clock")
	if last < uint64(m.wall.Add(-time.Second).UnixMicro()) {
		t.Errorf("token %d is below the wall clock's %d", last, m.wall.UnixMicro())
	}

	// The loss of all data.
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	m.pass(time.Second)
	step("after the directory was lost")
	b := m.open()
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	m.pass(time.Second)
	m.grant(b, "after the directory was lost under a running process", &last)
	b.Close()

	m.wall = time.Unix(1<<60, 0)
	step("with a wall clock that is wrong by ages")
	if last > maxWallToken+10 {
		t.Errorf("token %d leaves too few", last)
	}
}

// A running process detects that another machine, which has another boot, also uses the bucket.
func TestTwoMachines(t *testing.T) {
	dir := t.TempDir()
	m1 := &machine{t: t, dir: dir, boot: bootID{1}, up: time.Hour, wall: time.Now()}
	m2 := &machine{t: t, dir: dir, boot: bootID{2}, up: time.Minute, wall: time.Now()}
	b1, b2 := m1.open(), m2.open()
	defer b1.Close()
	defer b2.Close()
	l, err := acquire(b1, "k", time.Minute, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(b2, "k", time.Minute, false); err != nil {
		t.Fatal(err) // to this client, the machine seems to have been rebooted
	}
	for range 2 {
		if err := l.Renew(t.Context(), time.Minute); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("renew: %v, want ErrUnsupported", err)
		}
		for _, wait := range []bool{false, true} {
			if _, err := acquire(b1, "k", time.Minute, wait); !errors.Is(err, backend.ErrUnsupported) {
				t.Errorf("acquire: %v, want ErrUnsupported", err)
			}
		}
		if _, err := b1.Inspect(t.Context(), "k"); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("inspect: %v, want ErrUnsupported", err)
		}
	}
}

// Where containers have boot ids of their own, a lease outlives the restart of its container, but not a reboot of the
// host.
func TestContainerRestart(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), boot: newBootID("first", true), up: time.Hour, wall: time.Now()}
	var last uint64
	b := m.open()
	m.grant(b, "first", &last)
	if _, err := acquire(b, "held", time.Minute, false); err != nil {
		t.Fatal(err)
	}
	b.Close()
	m.boot = newBootID("second", true)
	b = m.open()
	if _, err := acquire(b, "held", time.Minute, false); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("after a restart of the container: %v, want ErrHeld", err)
	}
	b.Close()
	m.reboot(time.Second)
	m.boot = newBootID("third", true)
	b = m.open()
	defer b.Close()
	if _, err := acquire(b, "held", time.Minute, false); err != nil {
		t.Errorf("after a reboot of the host: %v", err)
	}
	m.grant(b, "after a reboot", &last)
}

// A lease does not outlive a reboot.
func TestRebootEndsLeases(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), boot: bootID{1}, up: time.Minute, wall: time.Now()}
	b := m.open()
	r := backend.Request{Key: "k", Owner: "before", TTL: time.Hour}
	l, err := b.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	reader := backend.Request{Key: "shared", Owner: "before", TTL: time.Hour, Shared: true}
	if _, err := b.Acquire(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	b.Close()
	m.reboot(time.Second)
	b = m.open()
	defer b.Close()
	if _, err := acquire(b, reader.Key, time.Minute, false); err != nil {
		t.Errorf("a writer after the reboot: %v", err)
	}
	r.Owner = "after"
	l2, err := b.Acquire(t.Context(), r)
	if err != nil || l2.Token() <= l.Token() {
		t.Errorf("%v", err)
	}
}
