//go:build unix

package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"
)

// homeOfUser is the home directory by the system's list of users. $HOME may differ between a login, cron and sudo, and two
// directories would let two in.
var homeOfUser = func() (string, error) {
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return "", fmt.Errorf("no home directory to keep locks in: %w", err)
	}
	return u.HomeDir, nil
}

// addHidden adds the commands that anylock starts itself.
func (a *app) addHidden(root *cobra.Command) { root.AddCommand(a.guardCommand()) }
