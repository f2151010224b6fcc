package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// widthOf returns the width of the terminal f in characters, or 0 if f is not a terminal.
func widthOf(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}
