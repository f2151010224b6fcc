//go:build unix

package main

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"
)

// widthOf is how many characters a line of the terminal f has, 0 if it is none.
func widthOf(f *os.File) int {
	const usual = 80 // of those that do not say
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return cmp.Or(int(size.Col), usual)
}
