//go:build unix && !linux

package main

import (
	"errors"
	"os"
	"sync"
)

// An image is the program file as it was at the first call of guardImage.
type image struct {
	path string
	info os.FileInfo
	err  error
}

var guardImage = sync.OnceValue(func() image {
	path, err := os.Executable()
	if err != nil {
		return image{err: err}
	}
	info, err := os.Stat(path)
	return image{path, info, err}
})

// guardFile returns the file to run as the guard. This system can run a program only by its path, so guardFile fails if
// the file has been replaced since the first call.
func guardFile() (string, error) {
	first := guardImage()
	if first.err != nil {
		return "", first.err
	}
	now, err := os.Stat(first.path)
	if err != nil {
		return "", err
	}
	if !os.SameFile(first.info, now) || !now.ModTime().Equal(first.info.ModTime()) || now.Size() != first.info.Size() {
		return "", errors.New("the program file has been replaced")
	}
	return first.path, nil
}

// setProcessName does nothing: ps and killall show the name of the file.
func setProcessName(string) {}
