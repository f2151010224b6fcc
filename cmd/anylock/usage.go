package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// columns is the width of the help: that of a terminal, and of a mail.
const columns = 80

// printUsage prints what follows the description in a command's help. Cobra's own does not break the lines of flags,
// and its templates make the linker keep every exported method in the program.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	for _, g := range append(c.Groups(), &cobra.Group{Title: "More:"}) {
		printGroup(&b, c, g)
	}
	printFlags(&b, "Flags:", c.LocalFlags())
	printFlags(&b, "Global Flags:", c.InheritedFlags())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

func printGroup(b *strings.Builder, c *cobra.Command, g *cobra.Group) {
	title := "\n" + g.Title + "\n"
	for _, sub := range c.Commands() {
		if sub.GroupID == g.ID && sub.IsAvailableCommand() {
			fmt.Fprintf(b, "%s  %-*s %s\n", title, sub.NamePadding(), sub.Name(), sub.Short)
			title = ""
		}
	}
}

func printFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s\n%s\n", title, strings.TrimRight(flags.FlagUsagesWrapped(columns), "\n"))
	}
}
