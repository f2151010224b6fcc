package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// switchHelp is the long help text of switch.
const switchHelp = `switch prints the steps that move running processes from one store to another:
what to deploy, in which order, and which promises of the old store the new one
does not keep. It acquires and releases locks on a key of its own: at the --from
store, to measure how that store's numbers grow, and at both, to find two URLs
of one store. Passwords are printed as ***. Before you use a URL, replace each
*** by its password, with %XX for every byte except letters and digits. At the
end of a URL, lock_password=*** stands for the passwords of the URLs inside, in
their order. --from-file and --to-file keep passwords out of ps.

With --pass N, switch advances the numbers of the --from store to N, the cut
that a plan printed. Numbers that follow a clock reach N at the end of the
plan's --within: switch waits until then. When switch exits, processes may begin
to use only the new store.

Exit codes: 0 the plan was printed, or the cut is passed; 64 wrong usage, or no
switch between these stores is safe; 69 a store cannot be reached; 74 the plan
cannot be written.`

// A switchRun is one call of switch.
type switchRun struct {
	app                        *app
	from, fromFile, to, toFile text
	within                     seconds
	cut                        uint64 // of --pass
	format                     *choice
}

func (a *app) switchCommand() *cobra.Command {
	s := &switchRun{app: a, within: seconds{d: 24 * time.Hour}, format: newChoice("text", "json")}
	cmd := &cobra.Command{
		Use:   "switch --from URL --to URL",
		Short: "Plan a move to another store, never with two owners",
		Long:  switchHelp,
		Example: `  anylock switch --from redis://cache-1 --to etcd://etcd-1
  anylock switch --from redis://cache-1 --to etcd://etcd-1 --within 2h
  anylock switch --from redis://cache-1 --pass 1790000000000000`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			changed := cmd.Flags().Changed
			passes := changed("pass")
			switch {
			case a.backend.isSet || a.backendFile.isSet:
				return usagef("switch takes --from and --to, not --backend")
			case passes && (s.to.isSet || s.toFile.isSet || changed("within") || changed("format")):
				return usagef("--pass takes only --from or --from-file")
			case s.within.d == 0:
				return usagef("--within must be more than 0")
			}
			old, err := a.openSwitched(cmd.Context(), "--from", s.from, s.fromFile)
			if err != nil {
				return err
			}
			defer old.close()
			if passes {
				return s.pass(cmd.Context(), old)
			}
			return s.plan(cmd.Context(), old)
		},
	}
	flags := cmd.Flags()
	flags.Var(&s.from, "from", "the `URL` of the store that is used now")
	flags.Var(&s.fromFile, "from-file", "read that URL from the first line of `FILE`")
	flags.Var(&s.to, "to", "the `URL` of the store to move to")
	flags.Var(&s.toFile, "to-file", "read that URL from the first line of `FILE`")
	flags.Var(&s.within, "within", "the longest time until every process uses both stores")
	flags.Uint64Var(&s.cut, "pass", 0, "advance the numbers of --from to `N`")
	flags.Var(s.format, "format", s.format.usage())
	return cmd
}

// pass advances the numbers of the old store to the cut.
func (s *switchRun) pass(ctx context.Context, old *switchStore) error {
	waits := sync.OnceFunc(func() { s.app.say("waiting until the store's number reaches the cut %d", s.cut) })
	n, err := old.pass(ctx, s.cut, func(uint64) { waits() })
	if err != nil {
		return storeError(err)
	}
	_, err = fmt.Fprintf(s.app.stdout, "passed: the store's number is %d, the cut %d\n", n, s.cut)
	return err
}

// plan prints the steps from the old store to the next.
func (s *switchRun) plan(ctx context.Context, old *switchStore) error {
	next, err := s.app.openSwitched(ctx, "--to", s.to, s.toFile)
	if err != nil {
		return err
	}
	defer next.close()
	if err := unsafeSwitch(old, next); err != nil {
		return usagef("no switch between these stores is safe: %w", err)
	}
	same, err := sameStore(ctx, old, next)
	if err != nil {
		return storeError(err)
	}
	if same {
		return usagef("no switch between these stores is safe: both are the same store")
	}
	p, err := planSwitch(ctx, old, next, s.within.d)
	if err != nil {
		return storeError(err)
	}
	if s.format.is("json") {
		return writeJSON(s.app.stdout, p)
	}
	_, err = fmt.Fprint(s.app.stdout, p.text())
	return err
}
