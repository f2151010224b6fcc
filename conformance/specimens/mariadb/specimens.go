package mariadb

import (
	"context"
	"database/sql"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/conformance/specimens/internal/sqltwin"
)

// Collection is what tables of MariaDB and MySQL are used for in a wrong way.
var Collection = specimens.Collection{
	Store: "MariaDB",
	Twin:  Open,
	Specimens: []specimens.Specimen{
		{
			Name:  "on-duplicate-key",
			Title: "INSERT … ON DUPLICATE KEY UPDATE",
			Story: "One statement inserts the row, or changes each column if the row has expired. " +
				"But MySQL assigns from left to right, and a condition reads what was assigned before it: " +
				"as soon as the expiry is new, the row counts as held, and the owner stays the old one. " +
				"A key that was released is then held by nobody, and a dead owner's lease begins anew. " +
				"In the right order the statement still deadlocks with itself, because it locks the gap beside the row.",
			See:    "MySQL manual, “INSERT … ON DUPLICATE KEY UPDATE Statement”",
			Right:  "UPDATE … WHERE it has expired, and INSERT IGNORE of a free row only if there is none.",
			Sin:    []string{"takeOnDuplicateKey"},
			Virtue: []string{"take", "takeSQL"},
			Open: func(ctx context.Context, addrs ...string) (backend.Backend, error) {
				how := right()
				how.Take = takeOnDuplicateKey
				return open(ctx, how, addrs)
			},
			Kills: []specimens.Kill{{Check: "OneAttemptWins",
				Says:   "was refused, although nobody held the key",
				OrSays: "after the races: the key did not become free"}},
		},
	},
}

// takeOnDuplicateKey takes what has expired, column by column.
func takeOnDuplicateKey(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	const expired = `expires <= ` + now + ` OR owner = VALUES(owner)`
	if _, err := c.ExecContext(ctx, `INSERT INTO locks VALUES (?, ?, 1, `+now+` + ?) ON DUPLICATE KEY UPDATE
		token = IF(`+expired+`, token + 1, token),
		expires = IF(`+expired+`, VALUES(expires), expires),
		owner = IF(`+expired+`, VALUES(owner), owner)`, []byte(r.Key), []byte(r.Owner), ttl.Milliseconds()); err != nil {
		return sqltwin.Row{}, err
	}
	return readAny(ctx, c, r.Key)
}
