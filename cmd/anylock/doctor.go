package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

func (a *app) doctorCommand() *cobra.Command {
	format := newChoice("text", "json")
	ttl := seconds{d: defaultTTL}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what is wrong with a store",
		Long: `doctor looks at the servers of the store, their settings and their state, and tells what threatens locks on them: how
much that matters, what it has found, why it matters, and what to set. It looks at their clocks too, and at how long a look at
a key takes, against --ttl. It changes nothing beyond what opening does, which makes the directory of a file store, and the
record of a Redlock node that is new. What it may not look at, as on a managed server, it says. With --format json it prints
an array.

docs/doctor.md lists all that it looks for.

Exit codes: 0 nothing, or what is good to know (info); 1 the worst is a warning; 2 the worst is critical: locks are lost, or not
granted, while nothing is broken; 64 wrong usage; 69 the store cannot be reached, or refuses to be opened.`,
		Example: `  anylock doctor --backend redis://cache-1
  anylock doctor --ttl 5 --format json`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := backend.ValidateTTL(ttl.d); err != nil {
				return usagef("--ttl: %w", err)
			}
			locks, err := a.open(cmd.Context(), lock.WithTTL(ttl.d))
			if err != nil {
				return err
			}
			defer locks.Close()
			list, err := locks.Examine(cmd.Context())
			if err != nil {
				return storeError(err)
			}
			if format.is("json") {
				err = writeJSON(a.stdout, append([]backend.Finding{}, list...))
			} else {
				_, err = fmt.Fprint(a.stdout, findingsText(list))
			}
			if err == nil && len(list) > 0 && list[0].Severity > backend.Info { // the worst comes first
				err = exitWith(exitWarning + int(list[0].Severity-backend.Warning))
			}
			return err
		},
	}
	cmd.Flags().Var(&ttl, "ttl", "the `TIME` that locks are to be taken for")
	cmd.Flags().Var(format, "format", format.usage())
	return cmd
}

// findingsText is a block of lines for each finding.
func findingsText(list []backend.Finding) string {
	if len(list) == 0 {
		return "nothing found\n"
	}
	var blocks []string
	for _, f := range list {
		head := fmt.Sprintf("%v: %s", f.Severity, f.Code)
		if f.Where != "" {
			head += " at " + f.Where
		}
		blocks = append(blocks, oneLine(head)+"\n  found: "+oneLine(f.Found)+"\n  why:   "+oneLine(f.Why)+"\n  set:   "+oneLine(f.Set)+"\n")
	}
	return strings.Join(blocks, "\n")
}
