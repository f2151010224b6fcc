package sqlite

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// monotonic is the host's clock in nanoseconds since boot, the same in every process and the one that Go's timers use.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux always has it
	}
	return t.Nano()
}

// bootID identifies this boot of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
