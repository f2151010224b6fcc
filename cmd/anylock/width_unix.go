//go:build unix

package main

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"
)

// widthOf returns the width of the terminal f in characters, or 0 if f is not a terminal.
func widthOf(f *os.File) int {
	const usual = 80 // for a terminal that does not report its width
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return cmp.Or(int(size.Col), usual)
}
