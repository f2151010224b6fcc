package main

import (
	"os"
	"os/user"

	"github.com/spf13/cobra"
)

// currentUser is by the user's token, whatever the environment says.
func currentUser() (*user.User, error) { return user.Current() }

// readableByAll is false: modes are not what protects files here.
func readableByAll(os.FileMode) bool { return false }

// addHidden adds the commands that anylock starts itself.
func addHidden(*cobra.Command) {}
