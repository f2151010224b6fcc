package main

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain turns this test binary into programs in $PATH: "anylock", "anylock-odd" with additional faulty stores, and
// "anylock-at" for a user whose home is $AT. They are built like the tests, with -race if the tests are.
func TestMain(m *testing.M) {
	os.Setenv(raceVariable, raceOptions)
	testscript.Main(leakCheck{m}, programsInPath)
}

var programsInPath = map[string]func(){
	"anylock": main, "anylock-odd": mainOdd, "anylock-at": mainAt,
	"lock-guard": main, // the name of the guard process
}

// A program built with -race sleeps for a second when it exits, unless an option forbids it.
const raceVariable, raceOptions = "GORACE", "atexit_sleep_ms=0"

// waitMuch runs 12 tests at once, because most tests wait. It respects -parallel.
func waitMuch() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "12") //nolint:errcheck // it is a number
	}
}

func mainAt() {
	homeOfUser = func() (string, error) { return os.Getenv("AT"), nil }
	main()
}

// A leakCheck runs the tests, and then checks that they left no goroutine.
type leakCheck struct{ m *testing.M }

func (l leakCheck) Run() int {
	inheritNoSignals()
	waitMuch()
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
