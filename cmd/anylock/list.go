package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
)

func (a *app) listCommand() *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "Tell which locks are held, and by whom",
		Long: `list tells which keys are held that begin with PREFIX, or all of them: the owner with its host and process id, the
fencing token, the time left unless it is renewed, and how many wait, as far as the store knows. It may look at everything
that the store keeps. With --format json it prints an array of what inspect prints of one.

Exit codes: 0 told, also when no key is held; 64 wrong usage, or a store that cannot list its keys; 69 the store cannot be
reached.`,
		Example: `  anylock list
  anylock list --format json nightly/`,
		Args: func(cmd *cobra.Command, args []string) error {
			return exactArgs([]string{"PREFIX"}[:min(len(args), 1)]...)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			locks, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer locks.Close()
			held, err := locks.List(cmd.Context(), prefix)
			if err != nil {
				return storeError(err)
			}
			if format.is("json") {
				records := make([]holderRecord, len(held))
				for i, k := range held {
					records[i] = newHolderRecord(k.Key, k.Holder)
				}
				return writeJSON(a.stdout, records)
			}
			return a.writeHeldText(held)
		},
	}
	cmd.Flags().Var(format, "format", format.usage())
	return cmd
}

func (a *app) writeHeldText(held []lock.HeldKey) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, k := range held {
		fmt.Fprintf(w, "%s\t%s\n", show(k.Key), holderText(k.Holder))
	}
	return w.Flush()
}
