package main

import (
	"strings"

	"github.com/anylock/lock/backend/kit"
)

// shellWord returns s as one word of a POSIX shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// printableWord returns s as one word of a shell for people to copy. The word has only printable characters. If s has
// others, the shell must know $'...', as bash does.
func printableWord(s string) string {
	if kit.Printable(s) == s {
		return shellWord(s)
	}
	return "$'" + kit.Printable(strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)) + "'"
}
