package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
)

func (a *app) breakCommand() *cobra.Command {
	owner := ""
	cmd := &cobra.Command{
		Use:   "break [--owner OWNER] KEY",
		Short: "End somebody else's lease",
		Long: `break ends the lease on KEY of its present holder, or of OWNER and nobody else, whichever machine it is on, and says on
standard error whose it was. The next one in the queue gets the key.

The holder is not stopped. It learns of the loss at once where the store tells, else at its next renewal, and "anylock run"
then stops its command. Until then two may be at work: make sure that the holder is dead.

Exit codes: 0 ended; 1 the key is free, or OWNER does not hold it; 64 wrong usage, or a store that cannot end the leases of
others; 69 the store cannot be reached.`,
		Example: `  anylock break nightly
  anylock break --owner 4f0c9a1b22d84e5f8d1c3b7a90e6f215@web-3:4711 nightly`,
		Args: exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if owner == "" && cmd.Flags().Changed("owner") {
				return usagef("--owner is empty")
			}
			locks, h, end, err := a.look(cmd.Context(), key)
			if err != nil {
				return err
			}
			defer end()
			switch {
			case !h.Held():
				a.say("%s is free", show(key))
				return exitWith(exitFree)
			case owner != "" && owner != h.Owner:
				a.say("%s is held by %s", show(key), show(h.Owner))
				return exitWith(exitFree)
			}
			err = locks.Break(cmd.Context(), key, h.Owner)
			if errors.Is(err, lock.ErrLost) {
				a.say("%s: the lease of %s has just ended", show(key), show(h.Owner))
				return exitWith(exitFree)
			}
			if err != nil {
				return storeError(err)
			}
			a.say("%s: the lease of %s is ended", show(key), show(h.Owner))
			return nil
		},
	}
	cmd.Flags().StringVar(&owner, "owner", "", "only if `OWNER`, as inspect --format json and list print it, holds the key")
	return cmd
}
