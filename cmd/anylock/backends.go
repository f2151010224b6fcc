package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/guaranteestable"
)

func (a *app) backendsCommand() *cobra.Command {
	format := newChoice("text", "json", "markdown")
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "List the stores, their URLs, and what they promise",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			// A pair of stores promises what these do: docs/switching.md.
			drivers := slices.DeleteFunc(driver.Registered(), func(d driver.Driver) bool { return d.Name == "pair" })
			switch {
			case format.is("json"):
				return writeJSON(a.stdout, guaranteestable.Records(drivers))
			case format.is("markdown"):
				return guaranteestable.Markdown(a.stdout, drivers)
			}
			return guaranteestable.Text(a.stdout, drivers)
		},
	}
	cmd.Flags().Var(format, "format", format.usage())
	return cmd
}
