package main

import (
	"os"
	"os/user"

	"github.com/spf13/cobra"
)

// currentUser returns the user of the process token, whatever the environment contains.
func currentUser() (*user.User, error) { return user.Current() }

// readableByAll returns false, because modes do not protect files on Windows.
func readableByAll(os.FileMode) bool { return false }

// addHidden does nothing: anylock runs no hidden commands on Windows.
func addHidden(*cobra.Command) {}
