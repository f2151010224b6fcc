package main

import (
	"errors"
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
		Short: "Find what is wrong with a store",
		Long: `doctor checks the settings and the state of the store's servers and reports
what threatens locks on them. Each finding has its severity, what was found,
why it matters, and what to set. doctor also checks the servers' clocks, and
how long reading a key takes compared with --ttl. It lists what it had no
permission to read, as on a managed server. With --format json it prints an
array. doctor changes nothing, except that opening the store creates the
directory of a file store and the record of a new Redlock node.

docs/doctor.md lists everything that it checks.

Exit codes: 0 nothing, or only information (info); 1 the worst finding is a
warning; 2 the worst is critical: locks are lost, or not granted, although
nothing is broken; 64 wrong usage; 69 the store cannot be reached or opened; 74
the findings cannot be written.`,
		Example: `  anylock doctor --backend redis://cache-1
  anylock doctor --ttl 5 --format json`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := backend.ValidateTTL(ttl.d); err != nil {
				return usagef("--ttl: %w", err)
			}
			locks, err := a.open(cmd.Context(), lock.WithTTL(ttl.d))
			if exit := (*exitError)(nil); errors.As(err, &exit) && errors.Is(err, lock.ErrUnsupported) {
				exit.code = exitUnavailable // the store can never keep locks; the usage is correct
			}
			if err != nil {
				return err
			}
			defer locks.Close()
			list, err := locks.Ops().Examine(cmd.Context())
			if err != nil {
				return storeError(err)
			}
			if format.is("json") {
				err = writeJSON(a.stdout, append([]backend.Finding{}, list...))
			} else {
				_, err = fmt.Fprint(a.stdout, findingsText(list))
			}
			if err == nil && len(list) > 0 && list[0].Severity > backend.Info { // the list begins with the worst
				err = exitWith(exitWarning + int(list[0].Severity-backend.Warning))
			}
			return err
		},
	}
	cmd.Flags().Var(&ttl, "ttl", "the `TTL` that your locks use")
	cmd.Flags().Var(format, "format", format.usage())
	return cmd
}

// findingsText returns a block of lines for each finding.
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
		blocks = append(blocks,
			oneLine(head)+"\n  found: "+oneLine(f.Found)+"\n  why:   "+oneLine(f.Why)+"\n  set:   "+oneLine(f.Set)+"\n")
	}
	return strings.Join(blocks, "\n")
}
