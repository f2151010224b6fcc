//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// widthOf is how many characters a line of the terminal f has, 0 if it is none.
func widthOf(f *os.File) int {
	const usual = 80 // of those that do not say
	width := 0
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	conn.Control(func(fd uintptr) { //nolint:errcheck // a closed file is no terminal
		if size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil {
			width = int(size.Col)
			if width == 0 {
				width = usual
			}
		}
	})
	return width
}
