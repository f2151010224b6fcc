package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// widthOf is how many characters a line of the terminal f has, 0 if it is none.
func widthOf(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}
