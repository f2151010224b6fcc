package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// The environment variables of a command that runs under a lock.
const (
	keyVariable   = "ANYLOCK_KEY"
	ownerVariable = "ANYLOCK_OWNER"
	tokenVariable = "ANYLOCK_TOKEN"
	heldVariable  = "ANYLOCK_HELD" // the owners of all locks around the command: outermost first, separated by spaces
)

// heldOwners returns the owners of the locks that enclosing anylock processes hold.
func heldOwners() []string { return strings.Fields(os.Getenv(heldVariable)) }

// childEnv returns env for a command that holds key. It removes the variables of an enclosing anylock, because a
// program may read the first of two equal names. (On Windows, names that differ only by case are equal, and os/exec
// keeps the last.)
func childEnv(env []string, key, owner string, token uint64) []string {
	held := owner
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, value, _ := strings.Cut(e, "=")
		if name == heldVariable {
			held = value + " " + owner
		}
		return name == keyVariable || name == ownerVariable || name == tokenVariable || name == heldVariable
	})
	return append(env, heldVariable+"="+held, keyVariable+"="+key, ownerVariable+"="+owner,
		tokenVariable+"="+strconv.FormatUint(token, 10))
}
