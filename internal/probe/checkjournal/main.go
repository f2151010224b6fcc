// Command checkjournal reads the journal of a probe. It exits with 1 if leases overlapped that exclude each other, if
// tokens are out of order, or if a process reported an error that no fault explains. It contains no code of the
// library.
//
// Usage: checkjournal [-early-loss] [-least N] JOURNAL
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/anylock/lock/internal/probe/journal"
)

func main() {
	early := flag.Bool("early-loss", false, "accept overlaps that follow a reset of the first holder's connections")
	least := flag.Int("least", 0, "how many leases of readers and of writers there must be")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	v, err := check(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkjournal:", err)
		os.Exit(2)
	}
	fmt.Print(v)
	if min(v.Readers, v.Writers) < *least {
		fmt.Printf("fewer than %d leases of readers or of writers prove nothing\n", *least)
		os.Exit(1)
	}
	if len(v.Violations) > 0 || len(v.Errors) > 0 || len(v.EarlyLoss) > 0 && !*early {
		os.Exit(1)
	}
}

func check(path string) (*journal.Verdict, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	j, err := journal.Read(f)
	if err != nil {
		return nil, err
	}
	return j.Check(), nil
}
