package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/guaranteestable"
)

func (a *app) backendsCommand() *cobra.Command {
	format := newChoice("text", "json", "markdown")
	cmd := &cobra.Command{
		Use:   "backends [STORE]",
		Short: "List the stores, their URLs, and what they promise",
		Long:  "backends lists the stores, or only STORE, with their URLs and what they promise.",
		Example: `  anylock backends
  anylock backends redis`,
		Args: func(cmd *cobra.Command, args []string) error {
			return exactArgs([]string{"STORE"}[:min(len(args), 1)]...)(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			drivers := shownDrivers()
			if len(args) > 0 {
				drivers = slices.DeleteFunc(drivers, func(d driver.Driver) bool {
					return d.Name != args[0] && !slices.Contains(d.Schemes(), args[0])
				})
				if len(drivers) == 0 {
					return usagef("unknown store %s: one of %s", show(args[0]), strings.Join(storeNames(), ", "))
				}
			}
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

// shownDrivers returns all drivers except pair, whose guarantees are those of its two stores: see docs/switching.md.
func shownDrivers() []driver.Driver {
	return slices.DeleteFunc(driver.Registered(), func(d driver.Driver) bool { return d.Name == "pair" })
}
