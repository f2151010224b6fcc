package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/anylock/lock/bench"
)

// reportFiles are the files that get the report of a benchmark in addition to standard output.
type reportFiles []*reportFile

type reportFile struct {
	*os.File
	isNew bool // created by openReports, and not written yet
	write func(b *bench.Report, w io.Writer) error
}

// openReports opens the files before the benchmark starts, so that a wrong path fails at once. Their old contents stay
// until there is a report.
func openReports(jsonFile, htmlFile string) (files reportFiles, err error) {
	if jsonFile != "" && jsonFile == htmlFile {
		return nil, usagef("--json and --html name the same file")
	}
	for _, f := range []struct {
		path  string
		write func(b *bench.Report, w io.Writer) error
	}{{jsonFile, (*bench.Report).WriteJSON}, {htmlFile, (*bench.Report).WriteHTML}} {
		if f.path == "" {
			continue
		}
		_, missing := os.Stat(f.path)
		file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			files.close()
			return nil, usagef("cannot write %s: %w", show(f.path), reason(err))
		}
		files = append(files, &reportFile{file, errors.Is(missing, fs.ErrNotExist), f.write})
	}
	return files, nil
}

// write replaces the contents of the files with the report, and closes them.
func (files reportFiles) write(b *bench.Report) (err error) {
	for _, f := range files {
		f.isNew = false
		if info, serr := f.Stat(); serr == nil && info.Mode().IsRegular() {
			err = errors.Join(err, f.Truncate(0))
		}
		err = errors.Join(err, f.write(b, f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// close closes the files. If no report was written, it removes those that openReports created.
func (files reportFiles) close() {
	for _, f := range files {
		_ = f.Close()
		if f.isNew {
			_ = os.Remove(f.Name())
		}
	}
}
