package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *app) listCommand() *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the locks that are held, and their holders",
		Long: `list shows the held keys that begin with PREFIX, or all held keys. For each key
it shows the owner with its host and process id, the fencing token, the time
left unless the lease is renewed, and how many wait, as far as the store knows.
The store may have to scan all its data. With --format json, list prints an
array of the objects that inspect prints.

Exit codes: 0 listed, even if no key is held; 64 wrong usage, or the store
cannot list its keys; 69 the store cannot be reached; 74 the list cannot be
written.`,
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
			held, err := locks.Ops().List(cmd.Context(), prefix)
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
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, k := range held {
				fmt.Fprintf(w, "%s\t%s\n", show(k.Key), holderText(k.Holder))
			}
			return w.Flush()
		},
	}
	cmd.Flags().Var(format, "format", format.usage())
	return cmd
}
