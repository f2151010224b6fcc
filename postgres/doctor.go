package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A reading contains the settings that the server reports.
type reading struct {
	values     map[string]string
	o          Options
	freeLeases int // number of further leases for which the server has connections and locks; 0 means no limit
}

func (r reading) number(name string) int64 {
	n, _ := strconv.ParseInt(r.values[name], 10, 64)
	return n
}

var rules = []kit.Rule[reading]{
	{Severity: backend.Warning, Code: "few-connections", Found: func(r reading) string {
		return kit.When(r.freeLeases > 0 && r.freeLeases < r.o.MaxLeases, "room for %d more leases, %s is %d",
			r.freeLeases, paramMaxLeases, r.o.MaxLeases)
	},
		Why: "each lease has a connection: when none is left, leases and other clients fail",
		Set: "a larger max_connections, a smaller " + paramMaxLeases + ", or a table (postgres+table://)"},
	{Severity: backend.Warning, Code: "short-timeouts", Found: func(r reading) string {
		var short []string
		for _, name := range timeouts {
			if d := time.Duration(r.number(name)) * time.Millisecond; d > 0 && d < r.o.Timeout {
				short = append(short, fmt.Sprintf("%s is %v", name, d))
			}
		}
		return strings.Join(short, ", ")
	},
		Why: "the setting ends requests on new connections before their own limit, and idle connections",
		Set: "0 for the role of the locks, by ALTER ROLE … SET"},
	{Severity: backend.Critical, Code: "transaction-timeout", Found: func(r reading) string {
		return kit.When(r.number("transaction_timeout") > 0, "transaction_timeout is %s ms", r.values["transaction_timeout"])
	},
		Why: "the setting ends waits",
		Set: "0 for the role of the locks, by ALTER ROLE … SET"},
	{Severity: backend.Warning, Code: "fsync-off", Found: func(r reading) string {
		return kit.When(r.o.Durable && r.values["fsync"] == "off", "fsync is off, %s is true", paramDurable)
	},
		Why: "a crash of the machine sets tokens back, which breaks the promise of " + paramDurable, Set: "fsync on"},
	{Severity: backend.Info, Code: "no-activities", Found: func(r reading) string {
		return kit.When(r.values["track_activities"] == "off", "track_activities is off")
	},
		Why: "nobody can see who holds a key, or end a lease by its owner", Set: "track_activities on"},
}

// Examine implements [backend.Examiner].
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	freeLeases, err := b.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	r := reading{values: make(map[string]string), o: b.options, freeLeases: freeLeases}
	var sent, received time.Time
	read := func(s *session) error {
		sent = time.Now()
		rows, err := s.query(doctorSQL)
		received = time.Now()
		for _, row := range rows {
			r.values[row[0]] = row[1]
		}
		return err
	}
	if err := b.call(ctx, nil, func(ctx context.Context) error { return b.onFreeSession(ctx, read) }); err != nil {
		return nil, err
	}
	clock := time.UnixMicro(r.number("clock"))
	return append(kit.CompareClocks("", clock, time.Microsecond, sent, received), kit.Apply(rules, "", r)...), nil
}
