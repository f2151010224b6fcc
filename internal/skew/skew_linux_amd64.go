package skew

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Set makes the wall clock of a process wrong by skew, in whole seconds. With 0 it makes the clock right. The process
// must be stopped or traced. Children that the process forks inherit the skew; programs that it executes do not.
//
// A process reads the time through the vDSO, code that the kernel maps into the process. Set replaces this code, in
// this process alone, by code that calls the kernel and adds the skew to wall clocks.
func Set(pid int, skew time.Duration) error {
	v, err := openVDSO(pid)
	if err != nil {
		return err
	}
	defer v.mem.Close()
	if err := v.idle(pid); err != nil {
		return err
	}
	for name, code := range clocks(skew) {
		if _, err := v.mem.WriteAt(code, v.at[name]); err != nil {
			return err
		}
	}
	return nil
}

// Possible reports whether the vDSO of this machine has room for the code.
func Possible() bool {
	v, err := openVDSO(os.Getpid())
	if err != nil {
		return false
	}
	v.mem.Close()
	return true
}

// A vdso is the vDSO of a process.
type vdso struct {
	mem      *os.File // the memory of the process
	from, to int64
	at       map[string]int64 // the addresses of its clock functions
}

func openVDSO(pid int) (_ *vdso, err error) {
	v := &vdso{at: make(map[string]int64)}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &v.from, &v.to); err != nil {
				return nil, err
			}
		}
	}
	if v.from == 0 {
		return nil, fmt.Errorf("%w: process %d has no vDSO, or has ended", os.ErrNotExist, pid)
	}
	if v.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if err := v.find(); err != nil {
		v.mem.Close()
		return nil, err
	}
	return v, nil
}

// find finds the addresses of the clock functions.
func (v *vdso) find() error {
	image, err := elf.NewFile(io.NewSectionReader(v.mem, v.from, v.to-v.from))
	if err != nil {
		return err
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		return err
	}
	for name, code := range clocks(0) {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Size >= uint64(len(code)) })
		if i < 0 {
			return fmt.Errorf("%w: the vDSO has no room for %s", errors.ErrUnsupported, name)
		}
		v.at[name] = v.from + int64(symbols[i].Value)
	}
	return nil
}

// idle returns ErrRuns unless every thread of the process is stopped outside the vDSO.
func (v *vdso) idle(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		state, err := os.ReadFile(thread) // "running", or the current system call, if any, and registers
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return err
		}
		var at int64
		fields := bytes.Fields(state)
		if len(fields) < 3 {
			return ErrRuns
		}
		if _, err := fmt.Sscanf(string(fields[len(fields)-1]), "0x%x", &at); err != nil {
			return err
		}
		if v.from <= at && at < v.to {
			return ErrRuns
		}
	}
	return nil
}

// clocks returns machine code for the functions that read the clock. The code adds skew.
func clocks(skew time.Duration) map[string][]byte {
	return map[string][]byte{
		// clock_gettime(clock int, ts *timespec)
		"__vdso_clock_gettime": withSkew(skew, []byte{
			0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
			0x0f, 0x05, // syscall
			0x85, 0xc0, // test eax, eax
			0x75, 22, // jne ret
			0x85, 0xff, // test edi, edi: CLOCK_REALTIME?
			0x74, 5, // je add
			0x83, 0xff, 5, // cmp edi, CLOCK_REALTIME_COARSE
			0x75, 13, // jne ret
			0x48, 0xb9, // add: mov rcx, skew
		}, []byte{
			0x48, 0x01, 0x0e, // add [rsi], rcx
			0xc3, // ret: ret
		}),
		// gettimeofday(tv *timeval, tz *timezone)
		"__vdso_gettimeofday": withSkew(skew, []byte{
			0xb8, 96, 0, 0, 0, // mov eax, SYS_gettimeofday
			0x0f, 0x05, // syscall
			0x85, 0xc0, // test eax, eax
			0x75, 18, // jne ret
			0x48, 0x85, 0xff, // test rdi, rdi
			0x74, 13, // je ret
			0x48, 0xb9, // mov rcx, skew
		}, []byte{
			0x48, 0x01, 0x0f, // add [rdi], rcx
			0xc3, // ret: ret
		}),
		// time(t *int64)
		"__vdso_time": withSkew(skew, []byte{
			0x57,       // push rdi
			0x31, 0xff, // xor edi, edi
			0xb8, 201, 0, 0, 0, // mov eax, SYS_time
			0x0f, 0x05, // syscall
			0x48, 0xb9, // mov rcx, skew
		}, []byte{
			0x48, 0x01, 0xc8, // add rax, rcx
			0x5f,             // pop rdi
			0x48, 0x85, 0xff, // test rdi, rdi
			0x74, 3, // je ret
			0x48, 0x89, 0x07, // mov [rdi], rax
			0xc3, // ret: ret
		}),
	}
}

// withSkew returns before, which ends with an instruction that loads the skew, then the skew, and then after.
func withSkew(skew time.Duration, before, after []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(before, uint64(skew/time.Second)), after...)
}
