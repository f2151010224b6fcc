package main

import "strings"

const homeVariable = "USERPROFILE"

func sameVariable(a, b string) bool { return strings.EqualFold(a, b) }
