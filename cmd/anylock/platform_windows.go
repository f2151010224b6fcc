package main

import (
	"strings"

	"github.com/spf13/cobra"
)

const homeVariable = "USERPROFILE"

func sameVariable(a, b string) bool { return strings.EqualFold(a, b) }

// addHidden adds the commands that anylock starts itself.
func (a *app) addHidden(*cobra.Command) {}
