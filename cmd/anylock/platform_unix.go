//go:build unix

package main

import (
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"
)

// currentUser is by the system's list of users: $HOME may differ between a login, cron and sudo, and two directories
// would let two in.
func currentUser() (*user.User, error) { return user.LookupId(strconv.Itoa(os.Geteuid())) }

// readableByAll reports whether every user may read a file with that mode.
func readableByAll(mode os.FileMode) bool { return mode.Perm()&0o004 != 0 }

// addHidden adds the commands that anylock starts itself.
func addHidden(root *cobra.Command) { root.AddCommand(guardCommand()) }
