package memcached

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// A reading is what the server says to "stats" and "stats settings".
type reading map[string]string

func (r reading) number(name string) int64 {
	n, _ := strconv.ParseInt(r[name], 10, 64)
	return n
}

var rules = []backend.Rule[reading]{
	{
		Severity: backend.Warning, Code: "evictions", Found: func(r reading) string {
			return backend.When(r.number("evictions") > 0, "%s items were evicted since the server started", r["evictions"])
		},
		Why: "some may have been locks, and it may happen again: each lets a second owner in", Set: "more memory (-m), or a server only for locks",
	},
	{
		Severity: backend.Warning, Code: "memory-nearly-full", Found: func(r reading) string {
			used, most := r.number("bytes"), r.number("limit_maxbytes")
			return backend.When(used > most/10*7, "%d of %d bytes are used", used, most)
		},
		Why: "slabs take much of the rest. A full server evicts items, including locks; with -M it refuses grants", Set: "more memory (-m), or a server only for locks",
	},
	{
		Severity: backend.Warning, Code: "old-version", Found: func(r reading) string {
			var major, minor int
			n, _ := fmt.Sscanf(r["version"], "%d.%d", &major, &minor)
			return backend.When(n == 2 && (major < 1 || major == 1 && minor < 6), "memcached %s", r["version"])
		},
		Why: "versions before 1.6 get no more fixes", Set: "a maintained version",
	},
	{
		Severity: backend.Info, Code: "evicts-when-full", Found: func(r reading) string { return backend.When(r["evictions_allowed"] == "on", "it runs without -M") },
		Why: "when memory is full, live items are dropped, including locks", Set: "-M, on a server only for locks",
	},
	{
		Severity: backend.Info, Code: "flush-allowed", Found: func(r reading) string { return backend.When(r["flush_enabled"] == "yes", "it runs without -F") },
		Why: "flush_all ends all locks at once", Set: "-F",
	},
}

// Examine implements [backend.Examiner].
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	if err := b.calls.Enter(ctx, b.closing.Done(), nil); err != nil {
		return nil, err
	}
	defer b.calls.End()
	r := make(reading)
	sent := b.now()
	err := b.stats(ctx, r)
	received := b.now()
	switch {
	case backend.Ended(ctx):
		return nil, backend.ContextError(ctx, err)
	case errors.Is(err, errNoStats):
		return []backend.Finding{backend.Unseen("", "stats", err)}, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	}
	const unit = (serverLag + 1) * time.Second
	return append(backend.CompareClocks("", time.Unix(r.number("time"), 0), unit, sent, received), backend.Apply(rules, "", r)...), nil
}

var errNoStats = errors.New("the server reports no statistics")

// stats asks on a connection of its own: the client library does not know the command.
func (b *Backend) stats(ctx context.Context, r reading) error {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	conn, err := b.lanes.options.DialContext(ctx, "tcp", b.lanes.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write([]byte("stats\r\nstats settings\r\n")); err != nil {
		return err
	}
	lines, answers := bufio.NewScanner(conn), 0
	for answers < 2 && lines.Scan() {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "STAT "), " ")
		switch {
		case lines.Text() == "END":
			answers++
		case !strings.HasPrefix(lines.Text(), "STAT "):
			return fmt.Errorf("%w: %q", errNoStats, lines.Text())
		case answers == 1 && name == "evictions": // a setting, which has the name of a counter
			r["evictions_allowed"] = value
		default:
			r[name] = value
		}
	}
	if answers < 2 {
		return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	}
	return nil
}
