// Command readme writes the generated parts of README.md and docs/*.md. Its tests check that these parts are up to
// date, that the programs in the documents compile, and that their links have a target. "make docs" runs it.
package main

import (
	"fmt"
	"os"

	"github.com/anylock/lock/internal/moduleroot"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := moduleroot.Find()
	if err != nil {
		return err
	}
	files, err := documents(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fresh, _, err := generate(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if fresh == string(text) {
			continue
		}
		if err := os.WriteFile(file, []byte(fresh), 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", file)
	}
	return nil
}
