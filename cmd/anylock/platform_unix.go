//go:build unix

package main

import (
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"
)

// currentUser looks the user up in the system's user database. $HOME may differ between a login, cron and sudo, and two
// lock directories would allow two holders.
func currentUser() (*user.User, error) { return user.LookupId(strconv.Itoa(os.Geteuid())) }

// readableByAll reports whether every user may read a file with that mode.
func readableByAll(mode os.FileMode) bool { return mode.Perm()&0o004 != 0 }

// addHidden adds the commands that anylock runs itself.
func addHidden(root *cobra.Command) { root.AddCommand(guardCommand()) }
