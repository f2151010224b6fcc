package main

import (
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
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, version())
			return err
		},
	}
}

// version is what the Go toolchain recorded when it built the program.
func version() string {
	v := "devel"
	revision, modified := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if m := info.Main.Version; m != "" && m != "(devel)" {
			v = m
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				const short = 12
				revision = " " + s.Value[:min(short, len(s.Value))]
			case "vcs.modified":
				if s.Value == "true" {
					modified = "+changes"
				}
			}
		}
	}
	if v != "devel" {
		revision, modified = "", "" // part of the version
	}
	return fmt.Sprintf("anylock %s%s%s %s %s/%s", v, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
