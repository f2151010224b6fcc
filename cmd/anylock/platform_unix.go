//go:build unix

package main

import "github.com/spf13/cobra"

const homeVariable = "HOME"

func sameVariable(a, b string) bool { return a == b }

// addHidden adds the commands that anylock starts itself.
func (a *app) addHidden(root *cobra.Command) { root.AddCommand(a.guardCommand()) }
