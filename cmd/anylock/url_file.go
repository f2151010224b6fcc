package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/anylock/lock/backend/driver"
)

// firstLine returns the first line of a file without the newline. It returns when ctx ends, even if the file cannot be
// opened or read yet, like a named pipe without a writer.
func firstLine(ctx context.Context, file string) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() { // a blocked goroutine ends with the program
		line, err := readFirstLine(file)
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func readFirstLine(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan()
	return lines.Text(), lines.Err()
}

// checkFirstLine returns an error that names what is wrong with the first line of a URL file.
func checkFirstLine(line string) error {
	switch {
	case line == "":
		return errors.New("its first line is empty")
	case strings.HasPrefix(line, "\ufeff"):
		return errors.New("it begins with a byte order mark (BOM); save it as UTF-8 without one")
	case strings.HasPrefix(line, "\xff\xfe"), strings.HasPrefix(line, "\xfe\xff"):
		return errors.New("it begins with the byte order mark (BOM) of UTF-16; save it as UTF-8 without one")
	}
	return nil
}

// warnOfReaders warns of a file with a password that every user of this machine may read. flag is the option that names
// the file.
func (a *app) warnOfReaders(flag, file, rawURL string) {
	if file == "" || !driver.HasPassword(rawURL) {
		return
	}
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && readableByAll(info.Mode()) {
		a.say("every user of this machine may read the password in %s %s; chmod o-r takes that right away", flag, show(file))
	}
}
