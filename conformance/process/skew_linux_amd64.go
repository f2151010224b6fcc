package process

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/anylock/lock/backend"
)

// startSkewed starts cmd with a wall clock that is off by skew, in whole seconds, for every package in it.
//
// A process asks for the time in the vDSO, code that the kernel maps into it. That is replaced, in this process alone, by
// code that asks the kernel and adds the skew to the wall clock; the monotonic clock stays as it is. It is done while the
// process is traced and has not run yet.
func startSkewed(cmd *exec.Cmd, skew time.Duration) error {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return unskewed(err)
	}
	err := awaitTrap(cmd.Process.Pid)
	if err == nil {
		err = skewClock(cmd.Process.Pid, skew)
	}
	if err == nil {
		err = syscall.PtraceDetach(cmd.Process.Pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return unskewed(err)
	}
	return nil
}

func unskewed(err error) error {
	return fmt.Errorf("%w: no process with a wrong clock: %w", backend.ErrUnsupported, err)
}

// awaitTrap waits until a traced child has become its program.
func awaitTrap(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case !status.Stopped() || status.StopSignal() != syscall.SIGTRAP:
			return fmt.Errorf("wait status %#x", int(status))
		default:
			return nil
		}
	}
}

// skewClock replaces the clock of a traced process.
func skewClock(pid int, skew time.Duration) error {
	from, to, err := vdso(pid)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	image, err := elf.NewFile(io.NewSectionReader(mem, from, to-from))
	if err != nil {
		return err
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		return err
	}
	code := skewedClock(skew)
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(code)) {
			_, err := mem.WriteAt(code, from+int64(s.Value))
			return err
		}
	}
	return errors.New("the vDSO has no clock")
}

// vdso is where a process has its vDSO.
func vdso(pid int) (from, to int64, err error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), "[vdso]") {
			_, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, errors.New("no vDSO")
}

// skewedClock is the machine code of clock_gettime(clock int, ts *timespec) with an error of skew.
func skewedClock(skew time.Duration) []byte {
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xc0, // test eax, eax
		0x75, 22, // jne ret
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME?
		0x74, 5, // je add
		0x83, 0xff, 5, // cmp edi, CLOCK_REALTIME_COARSE
		0x75, 13, // jne ret
		0x48, 0xb9, // add: mov rcx, skew
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(skew/time.Second))
	return append(code,
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3) // ret: ret
}
