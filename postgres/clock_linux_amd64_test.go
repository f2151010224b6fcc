package postgres

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
)

// The server's timers compare its wall clock, which Guarantees.EnforcedBy and EarlyLoss say. A step back of that clock keeps the key of a
// frozen holder for longer by the step, and never frees it early.
func TestServerClockBack(t *testing.T) {
	t.Parallel()
	const ttl, step = 2 * time.Second, 4 * time.Second
	for mode, params := range bothModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := servers.Postgres(t)
			b := opened(t, s.PostgresURL())
			saysWallClock(t, b)
			frozen := startChild(t, s.PostgresURL()+params, "k", ttl)
			frozen.says("held")
			frozen.freeze()
			begun := time.Now()
			stepClock(t, s, -step)
			l := granted(t, startAcquire(context.Background(), b, waiting("k", time.Minute)), ttl+step+soon).Lease
			took := time.Since(begun)
			t.Logf("free after %v, of a TTL of %v and a step of %v", took, ttl, step)
			if took < ttl-ttl/4 || took > ttl+step+maxLate {
				t.Errorf("free after %v", took)
			}
			release(t, l)
		})
	}
}

// A step forward can end a live lease before its deadline: when an alarm of the server's that was set for an earlier request goes off, it
// looks at the clock. The holder is told at once, as of any end of a session.
func TestServerClockForward(t *testing.T) {
	t.Parallel()
	const ttl, step, tries = 3 * time.Second, time.Hour, 3
	s := servers.Postgres(t)
	a, b := opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	saysWallClock(t, a)
	var early time.Duration
	for n := 1; early < ttl/4 && n <= tries; n++ { // a busy machine may set its alarms late
		l := acquire(t, a, req("k", ttl))
		time.Sleep(ttl / 2) // so that the server's alarm is ttl/2 away when the lease has ttl again
		if err := l.Renew(context.Background(), ttl); err != nil {
			t.Fatal(err)
		}
		next := startAcquire(context.Background(), b, waiting("k", time.Minute))
		queued(t, a, "k", 1)
		stepClock(t, s, time.Duration(n)*step)
		lost(t, l, ttl+soon)
		early = time.Until(l.Deadline())
		t.Logf("lost %v before its deadline", early)
		release(t, granted(t, next, ttl+soon).Lease)
	}
	if early < ttl/4 {
		t.Errorf("what Guarantees warn of did not happen")
	}
	l := acquire(t, a, req("k", ttl)) // and everything goes on
	if err := l.Renew(context.Background(), ttl); err != nil {
		t.Error(err)
	}
	release(t, l)
}

func saysWallClock(t *testing.T, b *Backend) {
	t.Helper()
	g := b.Guarantees()
	if !strings.Contains(g.EnforcedBy, "wall clock") || !strings.Contains(g.EarlyLoss, "step forward of the server's wall clock") ||
		!strings.Contains(g.EarlyLoss, "step back") {
		t.Errorf("Guarantees do not tell of the clock: enforced by %q, early loss %q", g.EnforcedBy, g.EarlyLoss)
	}
}

// stepClock steps the wall clock of a running server, in whole seconds: of each of its processes, by other code in the vDSO, where they
// ask for the time. It is theirs alone.
func stepClock(t *testing.T, s *servers.Server, step time.Duration) {
	t.Helper()
	if s.Dir == "" {
		t.Skip("the server is not a process of this machine")
	}
	pids := serverProcesses(t, s)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	defer func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}()
	time.Sleep(20 * time.Millisecond) // they stop when the kernel gets to it
	for _, pid := range pids {
		if err := stepProcess(pid, step); err != nil {
			t.Skipf("no clock to step in process %d of the server: %v", pid, err)
		}
	}
}

// serverProcesses are those whose folder is the server's.
func serverProcesses(t *testing.T, s *servers.Server) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var pid int
		if n, _ := fmt.Sscan(e.Name(), &pid); n != 1 {
			continue
		}
		if dir, err := os.Readlink("/proc/" + e.Name() + "/cwd"); err == nil && strings.HasPrefix(dir, s.Dir) {
			pids = append(pids, pid)
		}
	}
	if len(pids) < 2 {
		t.Fatalf("%d processes of the server in %s", len(pids), s.Dir)
	}
	return pids
}

func stepProcess(pid int, step time.Duration) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return err
		}
		image, err := elf.NewFile(io.NewSectionReader(mem, from, to-from))
		if err != nil {
			return err
		}
		symbols, err := image.DynamicSymbols()
		if err != nil {
			return err
		}
		for _, sym := range symbols {
			if sym.Name == "__vdso_gettimeofday" {
				_, err := mem.WriteAt(steppedClock(step), from+int64(sym.Value))
				return err
			}
		}
	}
	return errors.New("its vDSO has no gettimeofday")
}

// steppedClock is the machine code of gettimeofday(tv, tz) with an error of step.
func steppedClock(step time.Duration) []byte {
	code := []byte{
		0xb8, 96, 0, 0, 0, // mov eax, SYS_gettimeofday
		0x0f, 0x05, // syscall
		0x85, 0xc0, // test eax, eax
		0x75, 18, // jne ret
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 13, // je ret
		0x48, 0xb9, // mov rcx, step
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(step/time.Second))
	return append(code,
		0x48, 0x01, 0x0f, // add [rdi], rcx
		0xc3) // ret: ret
}
