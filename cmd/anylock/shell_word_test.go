//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/anylock/lock/internal/servers"
)

// printableWord quotes file names so that a shell reads the exact name, and a terminal receives only printable
// characters.
func TestPrintableWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		servers.Missing(t, "%v", err)
	}
	for _, file := range []string{"plain", "it's", "a b", "a\nb", "\x1b[2J", `\n'"$x` + "\x1b", "\u202eé"} {
		quoted := printableWord(file)
		if strings.ContainsFunc(quoted, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is not printable", quoted)
		}
		cmd := exec.Command(bash, "-c", "printf %s "+quoted)
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		out, err := cmd.Output()
		if err != nil || string(out) != file {
			t.Errorf("%s is %q for a shell (%v), want %q", quoted, out, err, file)
		}
	}
}
