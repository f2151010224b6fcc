package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// What a command that runs under a lock finds in its environment.
const (
	keyVariable   = "ANYLOCK_KEY"
	ownerVariable = "ANYLOCK_OWNER"
	tokenVariable = "ANYLOCK_TOKEN"
	heldVariable  = "ANYLOCK_HELD" // the owners of all locks around the command, outermost first, with spaces between them
)

// heldOwners are the owners of the locks that the anylocks around this process hold.
func heldOwners() []string { return strings.Fields(os.Getenv(heldVariable)) }

// childEnv is env for a command that holds key. What it inherits from an outer anylock goes, so that no program finds
// the outer values first. (Names that differ only by case are one on Windows, and there os/exec keeps the last.)
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
