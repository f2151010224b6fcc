package kit

import (
	"strconv"
	"strings"
)

var unescaped = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// Printable returns s with each character that is not printable, such as a newline, escaped as in Go.
func Printable(s string) string {
	quoted := strconv.Quote(s)
	return unescaped.Replace(quoted[1 : len(quoted)-1])
}
