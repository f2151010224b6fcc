package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
)

// An app is one call of the program, with the flags that all commands share.
type app struct {
	stdout, stderr *os.File

	backend, backendFile text
	verbose              bool
	require              []string // of run, hold and acquire; see needs
	notices              *notices // of commands that catch signals: see printInBackground
}

func init() { cobra.EnableCommandSorting = false } // keep the order in which we add commands: run first

func (a *app) rootCommand() *cobra.Command {
	printVersion := false
	root := &cobra.Command{
		Use:   "anylock",
		Short: "Run a command under a lock, on any store",
		Long: `anylock runs a command while it holds a lock. Of all the machines that share a
store, only one runs the command at a time. A URL names the store: a directory,
Redis, and others ("anylock backends" lists them).

The URL comes from --backend or --backend-file, else from $ANYLOCK_URL or
$ANYLOCK_URL_FILE. Without a URL, locks are kept in
~/.local/state/anylock/locks, and exclude only this user on this machine. If
standard error is not a terminal, as under cron, anylock then prints a warning,
unless ANYLOCK_REQUIRE=reach=host confirms that such locks are enough. The home
directory is that of the system's user database, not $HOME. On systems other
than Linux and macOS, which have no file store, a URL is required.`,
		Example: `  anylock run nightly -- ./nightly.sh          # once at a time on this machine
  export ANYLOCK_URL=redis://cache-1:6379      # from now on: on all machines
  anylock run -n nightly -- ./nightly.sh       # exit at once if it already runs
  anylock inspect nightly                      # show which process runs it`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknownCommand(cmd, args[0])
			case printVersion:
				return a.printVersion()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&printVersion, "version", false, "print the version")
	flags := root.PersistentFlags()
	flags.Var(&a.backend, "backend", "the store's `URL` (default $ANYLOCK_URL, else a directory of this user)")
	flags.Var(&a.backendFile, "backend-file", "read the URL from the first line of `FILE`, to keep its password out of "+
		"ps (default $ANYLOCK_URL_FILE)")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "report progress on standard error")
	addGroup(root, "Locks:", a.runCommand(), a.holdCommand(), a.acquireCommand(), a.renewCommand(),
		a.releaseCommand(), a.serveCommand())
	addGroup(root, "Who holds what:", a.inspectCommand(), a.listCommand(), a.breakCommand())
	addGroup(root, "The store:", a.backendsCommand(), a.doctorCommand(), a.tableCommand())
	addGroup(root, "Change, check and compare stores:", a.switchCommand(), a.conformCommand(), a.benchCommand())
	root.AddCommand(a.versionCommand())
	a.addCompletion(root)
	root.SetUsageFunc(printUsage)
	addHidden(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Run, help.RunE = nil, helpFor
	}
	return root
}

// addGroup adds commands under a heading of their own in the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		root.AddCommand(cmd)
	}
}

// helpFor prints the help of the command that args name.
func helpFor(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return unknownCommand(cmd, rest[0])
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
}

// unknownCommand returns the exit error for an unknown subcommand of cmd. It suggests similar names.
func unknownCommand(cmd *cobra.Command, name string) error {
	const distance = 2 // Levenshtein's, as in cobra
	cmd.SuggestionsMinimumDistance = distance
	var similar string
	if names := cmd.SuggestionsFor(name); len(names) > 0 {
		similar = "; did you mean " + strings.Join(names, " or ") + "?"
	}
	return usagef("unknown command %s%s", show(name), similar)
}

// say prints one line on standard error.
func (a *app) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if a.notices != nil {
		a.notices.add(line)
		return
	}
	a.print(line)
}

// printInBackground lets say return at once until end is called. A command that catches signals needs this: otherwise
// no signal would end the command while its output blocks. From end on, signals have their default action, because
// nobody may be reading the last lines either.
func (a *app) printInBackground() (end func()) {
	a.notices = newNotices(a.print)
	return func() {
		signal.Reset(signalsEnding...)
		a.notices.close()
		a.notices = nil
	}
}

// print prints one line on standard error. It blocks while the output does.
func (a *app) print(line string) { fmt.Fprintln(a.stderr, "anylock: "+oneLine(line)) }

func (a *app) sayVerbose(format string, args ...any) {
	if a.verbose {
		a.say(format, args...)
	}
}

// finish prints the error of a command, unless the error is silent, and returns the exit code.
func (a *app) finish(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	exit, wrong := (*exitError)(nil), (*fs.PathError)(nil)
	switch {
	case errors.As(err, &exit):
	case errors.As(err, &wrong): // standard output or a report file; all other path errors are exit errors already
		exit = &exitError{code: exitOutput, err: err}
	default:
		exit = &exitError{code: exitUsage, err: err, usage: true} // usually an error of cobra
	}
	if exit.err == nil {
		return exit.code
	}
	text := hideURLs(exit.err.Error(), os.Args)
	if exit.usage {
		text += fmt.Sprintf(" (see %s --help)", cmd.CommandPath())
	}
	a.print(text)
	return exit.code
}
