package postgres

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A label is an SQL comment that says which lease a session has, or asks for. Each request for a lease begins with it,
// so that pg_stat_activity shows it, also for as long as the session is idle. It needs no table, no write and no
// request of its own.
const (
	labelMark = "/*anylock1 "
	labelEnd  = "*/"
)

// labelEntry describes the lease. Escaping leaves no blank, no '*' and no '/'.
func labelEntry(h hash, owner string) string { return h.name() + "=" + url.PathEscape(owner) }

// label makes the text. timeout is how long the server lets the session be idle.
func label(timeout time.Duration, entry string) string {
	return labelMark + strconv.FormatInt(timeout.Milliseconds(), 10) + " " + entry + labelEnd
}

// readLabel finds h in a session's query.
func readLabel(query string, h hash) (owner string, timeout time.Duration, ok bool) {
	text, marked := strings.CutPrefix(query, labelMark)
	text, _, whole := strings.Cut(text, labelEnd) // without its end it was cut by the server
	number, entry, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(number, 10, 64)
	name, escaped, _ := strings.Cut(entry, "=")
	if !marked || !whole || err != nil || name != h.name() {
		return "", 0, false
	}
	owner, err = url.PathUnescape(escaped)
	return owner, time.Duration(ms) * time.Millisecond, err == nil
}
