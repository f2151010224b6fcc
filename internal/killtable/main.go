// Command killtable documents what the conformance suite finds, with proof. It writes docs/kill-table.md,
// docs/specimens.md, the tables of docs/evidence, and conformance/core_generated.go, the list of checks beyond the
// core. Its test checks that these files are up to date. "make evidence" records the findings and runs the command;
// "make docs" only runs it.
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
		file := filepath.Join(dir, filepath.FromSlash(name))
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
