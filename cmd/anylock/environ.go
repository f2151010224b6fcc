package main

import (
	"slices"
	"strconv"
	"strings"
)

// What a command that runs under a lock finds in its environment.
const (
	keyVariable   = "ANYLOCK_KEY"
	ownerVariable = "ANYLOCK_OWNER"
	tokenVariable = "ANYLOCK_TOKEN"
)

// childEnv is env for a command that holds key. What it inherits from an outer anylock goes, so that no program finds
// the outer values first. (Names that differ only by case are one on Windows, and there os/exec keeps the last.)
func childEnv(env []string, key, owner string, token uint64) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == keyVariable || name == ownerVariable || name == tokenVariable
	})
	return append(env, keyVariable+"="+key, ownerVariable+"="+owner, tokenVariable+"="+strconv.FormatUint(token, 10))
}
