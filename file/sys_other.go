//go:build !linux && !darwin

package file

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// On other systems the store compiles, so that programs that import it compile, too, but Open fails: its first call is
// bootName.

const openWrite, openRead, openNew, openFolder, openFIFO, listenFIFO = 0, 0, 0, 0, 0, 0

var errSystem = errors.New("not on " + runtime.GOOS)

func bootName() (string, bool, error) {
	return "", false, fmt.Errorf("%w: the file store runs on Linux and macOS", errUnsupported)
}

func hostClock() (func() int64, error)                 { return nil, errUnsupported }
func examineFS(string) (folder, error)                 { return folder{}, errUnsupported }
func openAt(path string, _ int, _ uint32) (int, error) { return -1, pathError("open", path, errSystem) }
func closeFD(int)                                      {}
func noDescriptor(error) bool                          { return false }
func copyFD(int) (int, error)                          { return -1, errSystem }
func replaceFD(_, _ int) error                         { return errSystem }
func lockFD(int) (bool, error)                         { return false, errSystem }
func unlockFD(int)                                     {}
func readAt(int, []byte, int64) (int, error)           { return 0, errSystem }
func writeAt(int, []byte, int64) error                 { return errSystem }
func infoOf(int) (fileInfo, error)                     { return fileInfo{}, errSystem }
func infoAt(string) (fileInfo, error)                  { return fileInfo{}, errSystem }
func truncateFD(int, int64)                            {}
func chmodFD(int, uint32) error                        { return errSystem }
func syncFD(int) error                                 { return errSystem }
func openInbox(string) (int, error)                    { return -1, errSystem }
func unlink(string)                                    {}
func makeFIFO(path string, _ uint32) error             { return pathError("mkfifo", path, errSystem) }
func writeFIFO(int, []byte)                            {}
func noReader(error) bool                              { return false }
func pathError(op, path string, err error) error       { return &os.PathError{Op: op, Path: path, Err: err} }
