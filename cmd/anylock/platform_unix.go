//go:build unix

package main

const homeVariable = "HOME"

func sameVariable(a, b string) bool { return a == b }
