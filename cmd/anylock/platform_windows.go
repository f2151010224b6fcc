package main

import (
	"os/user"

	"github.com/spf13/cobra"
)

// homeOfUser is the home directory by the user's token, whatever the environment says.
var homeOfUser = func() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

// addHidden adds the commands that anylock starts itself.
func (a *app) addHidden(*cobra.Command) {}
