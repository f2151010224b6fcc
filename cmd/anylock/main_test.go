package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes this binary, which is built like the tests (with -race, if they are), a program "anylock" in $PATH, and
// a program "anylock-odd" that has stores with faults too.
func TestMain(m *testing.M) {
	os.Setenv(raceVariable, raceOptions)
	testscript.Main(leakCheck{m}, map[string]func(){"anylock": main, "anylock-odd": mainOdd})
}

// A program built with -race sleeps for a second when it exits, unless it is told not to.
const raceVariable, raceOptions = "GORACE", "atexit_sleep_ms=0"

// A leakCheck runs the tests, then looks for goroutines that they have left.
type leakCheck struct{ m *testing.M }

func (l leakCheck) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
