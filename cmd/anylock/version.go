package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactArgs(),
		RunE:  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	_, err := fmt.Fprintln(a.stdout, version())
	return err
}

// releaseVersion is set by scripts/release.
var releaseVersion string

// version returns the release, or else the version that the Go toolchain recorded when it built the program. The commit
// with its date, the version of Go and the platform follow.
func version() string {
	v, commit := "devel", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if r := settings["vcs.revision"]; r != "" {
			commit = fmt.Sprintf(" commit %.12s of %s", r, settings["vcs.time"])
		}
		if settings["vcs.modified"] == "true" {
			commit += ", modified"
		}
	}
	return fmt.Sprintf("anylock %s%s %s %s/%s", cmp.Or(releaseVersion, v), commit, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}
