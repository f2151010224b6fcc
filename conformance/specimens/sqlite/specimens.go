package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/conformance/specimens/internal/sqltwin"
)

// Collection is what tables of SQLite are used for in a wrong way.
var Collection = specimens.Collection{
	Store: "SQLite",
	Twin:  Open,
	Specimens: []specimens.Specimen{
		{
			Name:  "deferred-transaction",
			Title: "A deferred transaction that reads and then writes",
			Story: "BEGIN alone, which drivers send by default, begins a transaction that becomes a writer at its " +
				"first write. " +
				"If another client has written after the read, SQLite cannot let this one write: it fails at once with " +
				"“database is locked”, whatever the busy timeout is. The caller sees an outage where there was a busy key, " +
				"and the more clients there are, the more of them fail.",
			See:    "SQLite manual, “Transactions”, DEFERRED, IMMEDIATE, and EXCLUSIVE",
			Right:  "BEGIN IMMEDIATE, which waits for its turn before it reads, or one statement that reads and writes.",
			Sin:    []string{"takeDeferred"},
			Virtue: []string{"takeImmediate", "takeInTransaction"},
			Open: func(ctx context.Context, addrs ...string) (backend.Backend, error) {
				how := right()
				how.Take = takeDeferred
				return open(ctx, how, addrs)
			},
			Kills: []specimens.Kill{{Check: "OneAttemptWins", Says: "database is locked"}},
		},
	},
}

// takeDeferred reads before it waits for its turn to write.
func takeDeferred(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	return takeInTransaction(ctx, c, `BEGIN`, r, ttl)
}
