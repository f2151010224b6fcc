package main

import (
	"os/user"

	"github.com/spf13/cobra"
)

// currentUser is by the user's token, whatever the environment says.
func currentUser() (*user.User, error) { return user.Current() }

// addHidden adds the commands that anylock starts itself.
func addHidden(*cobra.Command) {}
