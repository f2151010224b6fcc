package postgres

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A label is an SQL comment that says which leases a session holds. It is the last thing that a session sends in each
// request, so that pg_stat_activity shows it as the session's query for as long as the session is idle. It needs no
// table, no write and no request of its own.
const labelMark = "anylock1"

// labelEntry describes one lease. Escaping leaves no blank, no '*' and no '/'.
func labelEntry(h hash, owner string) string { return h.name() + "=" + url.PathEscape(owner) }

// label makes the text. timeout is how long the server lets the session be idle, 0 for ever.
func label(timeout time.Duration, entries []string) string {
	return "/*" + labelMark + " " + strconv.FormatInt(timeout.Milliseconds(), 10) + " " + strings.Join(entries, " ") + "*/"
}

// readLabel finds h in a session's query.
func readLabel(query string, h hash) (owner string, timeout time.Duration, ok bool) {
	text, ok := strings.CutPrefix(query, "/*"+labelMark+" ")
	if !ok {
		return "", 0, false
	}
	text, _, ok = strings.Cut(text, "*/") // without its end it was cut by the server
	if !ok {
		return "", 0, false
	}
	number, entries, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return "", 0, false
	}
	for entry := range strings.SplitSeq(entries, " ") {
		name, escaped, _ := strings.Cut(entry, "=")
		if name != h.name() {
			continue
		}
		owner, err := url.PathUnescape(escaped)
		return owner, time.Duration(ms) * time.Millisecond, err == nil
	}
	return "", 0, false
}
