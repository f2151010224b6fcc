package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// columns is the width of the help: the usual width of a terminal and of an email.
const columns = 80

// printUsage prints what follows the description in a command's help. Cobra's own function does not wrap the lines of
// flags, and its templates make the linker keep every exported method in the program.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	} else {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	for _, g := range append(c.Groups(), &cobra.Group{Title: "More:"}) {
		printGroup(&b, c, g)
	}
	printFlags(&b, "Flags:", c.LocalFlags())
	printFlags(&b, "Global Flags:", inheritedFlags(c))
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// storeless lists the commands that do not open the store of --backend or --backend-file.
var storeless = []string{"backends", "table", "switch", "version", "completion", "help"}

// inheritedFlags returns the flags of the root command that have an effect on c.
func inheritedFlags(c *cobra.Command) *pflag.FlagSet {
	words := strings.Fields(c.CommandPath())
	if len(words) < 2 || !slices.Contains(storeless, words[1]) {
		return c.InheritedFlags()
	}
	flags := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "backend" && f.Name != "backend-file" {
			flags.AddFlag(f)
		}
	})
	return flags
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
