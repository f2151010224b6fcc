package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
)

func (a *app) breakCommand() *cobra.Command {
	owner := ""
	cmd := &cobra.Command{
		Use:   "break [--owner OWNER] KEY",
		Short: "End somebody else's lease",
		Long: `break ends the current lease on KEY, whichever machine its holder is on, and
prints the holder on standard error. With --owner it ends the lease only if
OWNER holds it. The next waiter gets the key.

break does not stop the holder. The holder notices the loss at once if the
store reports losses, otherwise at its next renewal; "anylock run" then stops
its command. Until then, the old holder and the next one may work at the same
time: make sure that the old holder is dead.

Exit codes: 0 ended; 1 the key is free, or OWNER does not hold it; 64 wrong
usage, or the store cannot end the leases of others; 69 the store cannot be
reached.`,
		Example: `  anylock break nightly
  anylock break --owner 4f0c9a1b22d84e5f8d1c3b7a90e6f215@web-3:4711 nightly`,
		Args: exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if owner == "" && cmd.Flags().Changed("owner") {
				return usagef("--owner is empty")
			}
			locks, h, end, err := a.openAndInspect(cmd.Context(), key)
			if err != nil {
				return err
			}
			defer end()
			if !h.Held() {
				a.say("%s is free", show(key))
				return exitWith(exitFree)
			}
			ended := cmp.Or(owner, h.Owner) // h names only one of several readers
			switch err = locks.Ops().Break(cmd.Context(), key, ended); {
			case errors.Is(err, lock.ErrLost) && ended != h.Owner:
				a.say("%s is held by %s", show(key), show(h.Owner))
				return exitWith(exitFree)
			case errors.Is(err, lock.ErrLost):
				a.say("%s: the lease of %s has just ended", show(key), show(ended))
				return exitWith(exitFree)
			case err != nil:
				return storeError(err)
			}
			a.say("%s: ended the lease of %s", show(key), show(ended))
			return nil
		},
	}
	cmd.Flags().StringVar(&owner, "owner", "",
		"end the lease only if `OWNER`, as printed by list and inspect --format json, holds the key")
	return cmd
}
