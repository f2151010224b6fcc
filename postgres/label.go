package postgres

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A label is an SQL comment that names the lease that a session holds or requests. Each request for a lease begins with
// its label. pg_stat_activity therefore shows the label, even while the session is idle. A label needs no table, no
// write and no extra request.
const (
	labelMark = "/*anylock1 "
	labelEnd  = "*/"
)

// labelEntry describes the lease. Escaping removes every blank, '*' and '/'.
func labelEntry(h hash, owner string) string { return h.name() + "=" + url.PathEscape(owner) }

// label returns the whole label. timeout is how long the server lets the session be idle.
func label(timeout time.Duration, entry string) string {
	return labelMark + strconv.FormatInt(timeout.Milliseconds(), 10) + " " + entry + labelEnd
}

// readLabel reads the owner and the timeout from the label of a session's query. ok reports whether the label is
// complete and belongs to h.
func readLabel(query string, h hash) (owner string, timeout time.Duration, ok bool) {
	text, marked := strings.CutPrefix(query, labelMark)
	text, _, whole := strings.Cut(text, labelEnd) // without labelEnd, the server has truncated the query
	number, entry, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(number, 10, 64)
	name, escaped, _ := strings.Cut(entry, "=")
	if !marked || !whole || err != nil || name != h.name() {
		return "", 0, false
	}
	owner, err = url.PathUnescape(escaped)
	return owner, time.Duration(ms) * time.Millisecond, err == nil
}
