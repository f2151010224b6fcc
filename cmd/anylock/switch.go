package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) switchCommand() *cobra.Command {
	format := newChoice("text", "json")
	var from, fromFile, to, toFile text
	var within time.Duration
	var pass uint64
	cmd := &cobra.Command{
		Use:   "switch --from URL --to URL",
		Short: "Plan a move to another store, never with two owners",
		Long: `switch prints the steps that move running processes from one store to another:
what to deploy, in which order, and which promises of the old store the new one
does not keep. It acquires and releases locks on a key of its own: at the --from
store, to measure how that store's numbers grow, and at both, to find two URLs
of one store. Passwords are printed as ***. Before you use a URL, replace each
*** by its password, with %XX for every byte except letters and digits. At the
end of a URL, lock_password=*** stands for the passwords of the URLs inside, in
their order. --from-file and --to-file keep passwords out of ps.

With --pass N it advances the numbers of the --from store to N, the cut that a
plan printed. When it exits, processes may begin to use the new store alone.

Exit codes: 0 the plan was printed, or the cut is passed; 64 wrong usage, or no
switch between these stores is safe; 69 a store cannot be reached; 74 the plan
cannot be written.`,
		Example: `  anylock switch --from redis://cache-1 --to etcd://etcd-1
  anylock switch --from redis://cache-1 --to etcd://etcd-1 --within 2h
  anylock switch --from redis://cache-1 --pass 1790000000000000`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			passes := cmd.Flags().Changed("pass")
			switch {
			case a.backend.isSet || a.backendFile.isSet:
				return usagef("switch takes --from and --to, not --backend")
			case passes && (to.isSet || toFile.isSet || cmd.Flags().Changed("within") || cmd.Flags().Changed("format")):
				return usagef("--pass takes only --from or --from-file")
			case within <= 0:
				return usagef("--within %v is not positive", within)
			}
			old, err := a.openSwitched(cmd.Context(), "--from", from, fromFile)
			if err != nil {
				return err
			}
			defer old.close()
			if passes {
				n, err := old.pass(cmd.Context(), pass, func(n uint64) { a.sayVerbose("number %d, cut %d", n, pass) })
				if err != nil {
					return storeError(err)
				}
				_, err = fmt.Fprintf(a.stdout, "passed: the store's number is %d, the cut %d\n", n, pass)
				return err
			}
			next, err := a.openSwitched(cmd.Context(), "--to", to, toFile)
			if err != nil {
				return err
			}
			defer next.close()
			if err := unsafeSwitch(old, next); err != nil {
				return usagef("no switch between these stores is safe: %w", err)
			}
			same, err := sameStore(cmd.Context(), old, next)
			if err != nil {
				return storeError(err)
			}
			if same {
				return usagef("no switch between these stores is safe: both are the same store")
			}
			p, err := planSwitch(cmd.Context(), old, next, within)
			if err != nil {
				return storeError(err)
			}
			if format.is("json") {
				return writeJSON(a.stdout, p)
			}
			_, err = fmt.Fprint(a.stdout, p.text())
			return err
		},
	}
	flags := cmd.Flags()
	flags.Var(&from, "from", "the `URL` of the store that is used now")
	flags.Var(&fromFile, "from-file", "read that URL from the first line of `FILE`")
	flags.Var(&to, "to", "the `URL` of the store to move to")
	flags.Var(&toFile, "to-file", "read that URL from the first line of `FILE`")
	flags.DurationVar(&within, "within", 24*time.Hour, "the longest time until every process uses both stores")
	flags.Uint64Var(&pass, "pass", 0, "advance the numbers of --from to `N`")
	flags.Var(format, "format", format.usage())
	return cmd
}
