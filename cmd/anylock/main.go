// Command anylock runs a command under a lock, and shows locks and the stores that keep them.
//
//	anylock run nightly -- ./nightly.sh --full
//	anylock run --backend redis://cache-1:6379 -w 30 deploy -- make deploy
//	anylock inspect nightly
//	anylock conform --backend redis://cache-1:6379
//	anylock bench --backend redis://cache-1:6379 --html report.html
//	anylock backends
package main

import (
	"os"

	"github.com/anylock/lock/bench"
	otherprocess "github.com/anylock/lock/conformance/process"
)

func main() {
	bench.Main(openForBench)        // does not return in a process that "anylock bench" started to hold a key
	otherprocess.Main(openForSuite) // does not return in a process that "anylock conform --faults" started
	a := &app{stdout: os.Stdout, stderr: os.Stderr}
	cmd, err := a.rootCommand().ExecuteC()
	code := a.finish(cmd, err)
	dieOf(interruptOf(err)) // returns unless Ctrl-C ended the command
	os.Exit(code)
}
