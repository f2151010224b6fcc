// Command killtable writes docs/kill-table.md and docs/specimens.md: what the conformance suite finds, with proof. Its test
// checks that they are up to date. Run it by "make docs"; what it shows is recorded by "make evidence".
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/anylock/lock/internal/moduleroot"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "killtable:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := moduleroot.Find()
	if err != nil {
		return err
	}
	found, err := read(dir)
	if err != nil {
		return err
	}
	for name, text := range found.documents() {
		file := filepath.Join(dir, "docs", name)
		if old, err := os.ReadFile(file); err == nil && string(old) == text {
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", file)
	}
	return nil
}
