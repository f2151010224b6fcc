package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/bench"
)

// completionTime limits how long the shell waits for the keys of a store.
const completionTime = 2 * time.Second

// requirable lists the words that complete --require. A word that ends with "=" needs a value.
var requirable = []string{
	"fifo", "push", "linearizable", "no-early-loss", "reports-loss", "shared", "fencing=process", "fencing=restart",
	"fencing=loss", "reach=host", "reach=network", "max-late=", "min-ttl=", "max-ttl=", "max-silence=", "max-leases=",
}

// addCompletion adds cobra's command "completion", with a help of 80 columns. It completes the values of flags, and KEY
// from the held keys.
func (a *app) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.Short = "Print the completion script for a shell"
		for _, shell := range cmd.Commands() {
			shell.Long = strings.Replace(shell.Long,
				"If it is not installed already, you can install it via your OS's package manager.",
				"If it is missing, install it with your system's package manager.", 1)
		}
	}
	values := map[string]cobra.CompletionFunc{
		"backend": words(schemes()...), "from": words(schemes()...), "to": words(schemes()...),
		"require":  words(requirable...),
		"scenario": words(scenarioNames()...), "dialect": words("postgres", "mysql", "sqlite"),
	}
	for _, cmd := range append(root.Commands(), root) {
		for name, complete := range values {
			if cmd.Flag(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails only if the flag does not exist
			}
		}
		if f := cmd.Flag("format"); f != nil {
			if c, ok := f.Value.(*choice); ok {
				_ = cmd.RegisterFlagCompletionFunc("format", words(c.words...))
			}
		}
		switch cmd.Name() {
		case "run", "hold", "acquire", "renew", "release", "inspect", "list", "break":
			cmd.ValidArgsFunction = a.completeKey
		case "backends":
			cmd.ValidArgsFunction = words(storeNames()...)
		}
	}
}

func words(list ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		if slices.ContainsFunc(list, isBeginning) {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return list, directive
	}
}

// isBeginning reports whether more text must follow the word, so that the shell adds no space.
func isBeginning(word string) bool { return strings.ContainsAny(word[len(word)-1:], "=:/") }

// schemes returns the beginnings of URLs, such as redis://.
func schemes() (list []string) {
	for _, d := range driver.Registered() {
		for _, form := range d.URLs {
			if form.Hosts == driver.NoHosts {
				list = append(list, form.Scheme+":")
			} else {
				list = append(list, form.Scheme+"://")
			}
		}
	}
	return list
}

// completeKey completes KEY from the held keys, without keys that need quoting. After KEY, run has a command, so the
// shell completes files.
func (a *app) completeKey(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	locks, err := a.open(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer locks.Close()
	held, err := locks.Ops().List(ctx, begun)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []string
	for _, k := range held {
		if show(k.Key) == k.Key {
			keys = append(keys, k.Key)
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

func scenarioNames() (names []string) {
	for _, s := range bench.Scenarios(bench.Options{}) {
		names = append(names, s.Name)
	}
	return names
}

func storeNames() (names []string) {
	for _, d := range shownDrivers() {
		names = append(names, d.Name)
	}
	return names
}
