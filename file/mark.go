package file

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/anylock/lock/backend"
)

// A folder belongs to the store once it holds the mark: a file whose first line names the format. The store takes an
// empty folder only, and in its own it touches only what it has written: buckets, which begin with a line of their own,
// and FIFOs of its names.
const (
	markFile     = ".anylock"
	markBegin    = "anylock file store, format "
	folderFormat = 5
)

var markText = fmt.Sprintf("%s%d\nThe files in this folder are locks. Remove it only while no program uses it.\n",
	markBegin, folderFormat)

// takeFolder makes the folder if it is missing, and makes sure that it has the store's mark: it puts the mark into a
// folder that holds nothing else.
func (s *store) takeFolder() error {
	if marked, err := s.marked(); marked || err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, dirMode); err != nil {
		return err
	}
	stranger, err := s.stranger()
	if err != nil {
		return err
	}
	if stranger == "" {
		return s.mark()
	}
	// Another process may have marked it meanwhile, and begun to use it.
	marked, err := s.marked()
	if !marked && err == nil {
		err = fmt.Errorf("%w: %q is not empty and not a folder of this store: it has no %s, but %q; name an empty "+
			"or a new folder",
			backend.ErrInvalid, s.dir, markFile, stranger)
	}
	return err
}

// marked reports whether the folder has the mark of this format. Another one is an error.
func (s *store) marked() (bool, error) {
	line, err := s.firstLine(markFile)
	switch {
	case errors.Is(err, errAbsent):
		return false, nil
	case errors.Is(err, fs.ErrPermission):
		return false, err
	case err == nil && line == fmt.Sprint(markBegin, folderFormat):
		return true, nil
	case strings.HasPrefix(line, markBegin):
		return false, fmt.Errorf("%w: %q has the locks of another version of this store (%q); name another folder, or "+
			"remove this one while no program uses it",
			backend.ErrUnsupported, s.dir, line)
	}
	return false, fmt.Errorf("%s: %w", s.path(markFile), errForeign)
}

// firstLine returns the first line of a file in the folder, or the first 256 bytes of that.
func (s *store) firstLine(name string) (string, error) {
	fd, err := openAt(s.path(name), openRead, 0)
	if err != nil {
		return "", err
	}
	defer closeFD(fd)
	var buf [256]byte
	n, err := readAt(fd, buf[:], 0)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	return line, err
}

// stranger is the name of something in the folder that the store has not made; empty if there is nothing.
func (s *store) stranger() (string, error) {
	all, err := os.ReadDir(s.dir)
	if err != nil {
		return "", err
	}
	for _, e := range all {
		name := e.Name()
		line := ""
		if strings.HasPrefix(name, bucketPrefix) && e.Type().IsRegular() {
			line, _ = s.firstLine(name)
		}
		switch {
		case name == "lost+found" && e.IsDir(): // a file system made for locks
		case name == markFile: // of a process that was first
		case hasRandomName(name, markFile+".") && e.Type().IsRegular(): // of one that is at it, or died
		case hasRandomName(name, inboxPrefix) && e.Type() == fs.ModeNamedPipe:
		case strings.HasPrefix(line, anyFormat):
		default:
			return name, nil
		}
	}
	return "", nil
}

// mark puts the mark into the folder.
func (s *store) mark() error {
	if err := s.put(s.path(markFile), markText); err != nil {
		return err
	}
	if dir, err := openAt(s.dir, openRead, 0); err == nil {
		_ = syncFD(dir) // not every file system can; without it, a power failure may take the mark and what is beside it
		closeFD(dir)
	}
	return nil
}

func randomName() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// hasRandomName reports whether name is the prefix and what randomName makes.
func hasRandomName(name, prefix string) bool {
	random, ok := strings.CutPrefix(name, prefix)
	return ok && len(random) == len(randomName()) && strings.Trim(random, "0123456789abcdef") == ""
}
