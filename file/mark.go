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

// A folder belongs to the store if it contains the mark: a file whose first line names the format. The store puts its
// mark only into an empty folder. In its own folder, it touches only the files that it has created: buckets, which have
// a first line of their own, and FIFOs, which have names of their own.
const (
	markFile     = ".anylock"
	markBegin    = "anylock file store, format "
	folderFormat = 6
)

var markText = fmt.Sprintf("%s%d\nThe files in this folder are locks. Remove it only while no program uses it.\n",
	markBegin, folderFormat)

// ensureFolder creates the folder if it is missing, and marks it as the store's if it is empty. It returns an error if
// the folder has no mark and contains other files.
func (s *store) ensureFolder() error {
	if marked, err := s.marked(); marked || err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, dirMode); err != nil {
		return err
	}
	foreign, err := s.foreignEntry()
	if err != nil {
		return err
	}
	if foreign == "" {
		return s.mark()
	}
	// Another process may have marked the folder in the meantime, and started to use it.
	marked, err := s.marked()
	if !marked && err == nil {
		err = fmt.Errorf("%w: %q is not empty and not a folder of this store: it has no %s, but %q; name an empty "+
			"or a new folder",
			backend.ErrInvalid, s.dir, markFile, foreign)
	}
	return err
}

// marked reports whether the folder has the mark of this format. The mark of another format is an error.
func (s *store) marked() (bool, error) {
	line, err := s.firstLine(markFile)
	switch {
	case errors.Is(err, errAbsent):
		return false, nil
	case errors.Is(err, fs.ErrPermission), noDescriptor(err):
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

// firstLine returns the first line of a file in the folder, cut off after 256 bytes.
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

// foreignEntry returns the name of an entry in the folder that the store did not create, or "" if there is none.
func (s *store) foreignEntry() (string, error) {
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
		case name == "lost+found" && e.IsDir(): // the folder is the root of a file system
		case name == markFile: // another process was faster
		case hasRandomName(name, markFile+".") && e.Type().IsRegular(): // a process is writing a file, or has died
		case hasRandomName(name, inboxPrefix) && e.Type() == fs.ModeNamedPipe:
		case strings.HasPrefix(line, formatPrefix):
		default:
			return name, nil
		}
	}
	return "", nil
}

// mark puts the mark into the folder.
func (s *store) mark() error {
	if err := s.createFile(s.path(markFile), markText); err != nil {
		return err
	}
	if dir, err := openAt(s.dir, openFolder, 0); err == nil {
		// Not every file system supports this. Without it, a power failure may remove the mark and other new files.
		_ = syncFD(dir)
		closeFD(dir)
	}
	return nil
}

func randomName() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// hasRandomName reports whether name is prefix followed by a result of randomName.
func hasRandomName(name, prefix string) bool {
	random, ok := strings.CutPrefix(name, prefix)
	return ok && len(random) == len(randomName()) && strings.Trim(random, "0123456789abcdef") == ""
}
