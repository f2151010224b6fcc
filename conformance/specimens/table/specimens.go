package table

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/conformance/specimens/internal/sqltwin"
)

// Collection is what tables are used for in a wrong way.
var Collection = specimens.Collection{
	Store: "A table",
	Twin:  Open,
	Specimens: []specimens.Specimen{
		{
			Name:  "select-then-insert",
			Title: "SELECT, then INSERT if the row is missing",
			Story: "A transaction selects the key's row and inserts it if it is missing. The transaction seems to " +
				"make this safe. But at the usual isolation level two concurrent transactions both find nothing, and both " +
				"insert. The table has no unique key to prevent this; with a unique key the loser would get an error, " +
				"which is then mistaken for an outage.",
			See:    "Postgres manual, “Transaction Isolation”, Read Committed",
			Right:  "A unique key, and one INSERT … ON CONFLICT DO UPDATE … WHERE it has expired.",
			Sin:    []string{"takeInTwoSteps"},
			Virtue: []string{"take", "takeSQL"},
			Open:   wrong(func(w *sqltwin.Steps) { w.Schema, w.Take, w.Read = schemaWithoutKey, takeInTwoSteps, readFirst }),
			Kills: []specimens.Kill{{Check: "OneAttemptWins", Says: "attempts made at the same moment were granted",
				OrSays: "Release of a live lease: lease lost"}},
		},
		{
			Name:  "expiry-by-clients-clock",
			Title: "Expiry by the clients' clocks",
			Story: "The row holds an expiry computed by the holder's host, and other hosts compare it with their own " +
				"clocks. Clocks differ: by seconds without NTP, by an hour if local time was set as UTC. A host whose " +
				"clock is ahead takes keys from live holders, and its own leases last too long.",
			See:    "the lock tables of many job queues; ShedLock without usingDbTime",
			Right:  "Compute and compare with the server's clock_timestamp().",
			Sin:    []string{"takeByOwnClock"},
			Virtue: []string{"take", "takeSQL"},
			Open:   wrong(func(w *sqltwin.Steps) { w.Take, w.Renew = takeByOwnClock, renewByOwnClock }),
			Kills:  []specimens.Kill{{Check: "WrongClockEndsNothingEarly", Says: "wrong clock was granted"}},
		},
		{
			Name:  "delete-row-by-key",
			Title: "DELETE by the key alone",
			Story: "Unlock deletes the key's row. If the lease has expired and another owner has the row, Unlock " +
				"deletes that owner's row, and a third client gets in. One row was deleted, as expected, so nothing seems " +
				"wrong.",
			See:    "the lock tables of many job queues",
			Right:  "WHERE key = $1 AND owner = $2, and check the number of rows.",
			Sin:    []string{"removeByKey"},
			Virtue: []string{"remove", "removeSQL"},
			Open:   wrong(func(w *sqltwin.Steps) { w.Remove = removeByKey }),
			Kills: []specimens.Kill{
				{Check: "EvictedReleaseSparesNewHolder",
					Says: "Release of a lease that the store had dropped: <nil>, want ErrLost"},
			},
		},
		{
			Name:  "heartbeat-by-key",
			Title: "Heartbeat by the key alone",
			Story: "A thread updates the row's time every few seconds while the job runs. If the process was paused " +
				"for longer than the TTL, another owner has the row, and the heartbeat keeps that owner's lease alive. " +
				"The first process works at the same time as the second. If the second dies, its key stays taken as long " +
				"as the first one lives.",
			See:    "the lock tables of many job queues",
			Right:  "Extend only a row that still has this owner and has not expired. Otherwise the lease is lost.",
			Sin:    []string{"renewByKey"},
			Virtue: []string{"renew", "renewSQL"},
			Open:   wrong(func(w *sqltwin.Steps) { w.Renew = renewByKey }),
			Kills: []specimens.Kill{
				{Check: "EvictedRenewSparesNewHolder", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
			},
		},
		{
			Name:  "token-goes-with-the-row",
			Title: "A fencing token deleted with the row",
			Story: "Each grant increments the row's number, as a fencing token. Unlock deletes the row to keep the " +
				"table small, so the next holder's number begins at 1 again. A resource that remembers the highest token " +
				"then refuses every holder, or accepts a late one.",
			See:    "M. Kleppmann, “How to do distributed locking”, on fencing tokens",
			Right:  "Keep the row, or count in a sequence.",
			Sin:    []string{"removeRow"},
			Virtue: []string{"remove", "removeSQL"},
			Open:   wrong(func(w *sqltwin.Steps) { w.Remove = removeRow }),
			Kills:  []specimens.Kill{{Check: "TokensIncrease", Says: "token 1 after 1"}},
		},
		{
			Name:  "now-in-a-transaction",
			Title: "now() in a transaction that lasts",
			Story: "A transaction waits for the key, and takes it with an expiry of now() plus the TTL. " +
				"In Postgres, now() is the time at which the transaction began: after a wait of 2 s, a lease of 3 s " +
				"has 1 s left, " +
				"and the next client is let in 2 s before the holder expects that. The waiter does not see a dead holder's lease " +
				"expire either.",
			See:    "Postgres manual, “Date/Time Functions and Operators”, Current Date/Time; ShedLock issues 3577 and 3682",
			Right:  "clock_timestamp(), in a statement that commits by itself.",
			Sin:    []string{"takeByNow", "pollInTransaction"},
			Virtue: []string{"take", "takeSQL"},
			Open:   wrong(func(w *sqltwin.Steps) { w.Take, w.Wait = takeByNow, pollInTransaction }),
			Kills:  []specimens.Kill{{Check: "WaitOutlivesOwnTTL", Says: "double grant: a second owner was granted the key"}},
		},
		{
			Name:  "renew-without-expiry",
			Title: "A renewal that does not look at the expiry",
			Story: "The heartbeat updates the row of its own owner, and asks no more than that. After a pause of the process, " +
				"the row is still its own " +
				"as long as nobody else has wanted the key, so that a lease that ended a minute ago is renewed. " +
				"What was true in that minute, the holder cannot know: a fencing token that was refused meanwhile, a reader that " +
				"saw a free key.",
			See:    "goose issue 993; the lock tables of many job queues",
			Right:  "AND expires > clock_timestamp(). No row means that the lease is lost.",
			Sin:    []string{"renewExpired"},
			Virtue: []string{"renew", "renewSQL"},
			Open:   wrong(func(w *sqltwin.Steps) { w.Renew = renewExpired }),
			Kills: []specimens.Kill{
				{Check: "LateRenewalRevivesNothing", Says: "that came to the store when the lease had ended: the key is not free"},
			},
		},
	},
}

// wrong opens the store with some steps done in another way.
func wrong(change func(*sqltwin.Steps)) specimens.Open {
	return func(ctx context.Context, addrs ...string) (backend.Backend, error) {
		how := right()
		change(&how)
		return open(ctx, how, addrs)
	}
}

// schemaWithoutKey makes the same table, and forgets what makes its keys unique. It has a name of its own, beside the
// others.
const schemaWithoutKey = `CREATE TABLE IF NOT EXISTS plain_locks (
	key bytea NOT NULL, owner bytea NOT NULL, token bigint GENERATED ALWAYS AS IDENTITY, expires timestamptz NOT NULL)`

// takeInTwoSteps looks, and inserts.
func takeInTwoSteps(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return sqltwin.Row{}, err
	}
	defer func() { _ = tx.Rollback() }()
	if found, err := readFirst(ctx, c, r.Key); err != nil || found.Owner != "" {
		return found, err
	}
	got := sqltwin.Row{Owner: r.Owner, Left: ttl}
	err = tx.QueryRowContext(ctx, `INSERT INTO plain_locks (key, owner, expires)
		VALUES ($1, $2, clock_timestamp() + $3 * interval '1 ms') RETURNING token`,
		[]byte(r.Key), []byte(r.Owner), ttl.Milliseconds()).Scan(&got.Token)
	return got, errors.Join(err, tx.Commit())
}

func readFirst(ctx context.Context, c *sql.Conn, key string) (sqltwin.Row, error) {
	return sqltwin.Scan(c.QueryRowContext(ctx, `SELECT owner, token, (extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint
		FROM plain_locks WHERE key = $1 AND expires > clock_timestamp() LIMIT 1`, []byte(key)))
}

// takeByOwnClock takes what has expired by this host's clock, until a time of it.
func takeByOwnClock(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	now := time.Now()
	got := sqltwin.Row{Owner: r.Owner, Left: ttl}
	err := c.QueryRowContext(ctx, `INSERT INTO locks AS l VALUES ($1, $2, 1, $3)
		ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = l.token + 1, expires = excluded.expires
		WHERE l.expires <= $4 OR l.owner = excluded.owner
		RETURNING token`, []byte(r.Key), []byte(r.Owner), now.Add(ttl), now).Scan(&got.Token)
	if errors.Is(err, sql.ErrNoRows) {
		return sqltwin.Row{Owner: "somebody"}, nil
	}
	return got, err
}

func renewByOwnClock(ctx context.Context, c *sql.Conn, key, owner string, ttl time.Duration) (found bool, err error) {
	now := time.Now()
	return sqltwin.Changed(c.ExecContext(ctx,
		`UPDATE locks SET expires = $3 WHERE key = $1 AND owner = $2 AND expires > $4`,
		[]byte(key), []byte(owner), now.Add(ttl), now))
}

// removeByKey deletes the row, whoever has it.
func removeByKey(ctx context.Context, c *sql.Conn, key, _ string) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, `DELETE FROM locks WHERE key = $1`, []byte(key)))
}

// renewByKey prolongs the row, whoever has it.
func renewByKey(ctx context.Context, c *sql.Conn, key, _ string, ttl time.Duration) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx,
		`UPDATE locks SET expires = clock_timestamp() + $2 * interval '1 ms' WHERE key = $1`,
		[]byte(key), ttl.Milliseconds()))
}

// removeRow deletes the row of its owner, and the token with it.
func removeRow(ctx context.Context, c *sql.Conn, key, owner string) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx,
		`DELETE FROM locks WHERE key = $1 AND owner = $2 AND expires > clock_timestamp()`,
		[]byte(key), []byte(owner)))
}

const takeByNowSQL = `INSERT INTO locks AS l VALUES ($1, $2, 1, now() + $3 * interval '1 ms')
	ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = l.token + 1, expires = excluded.expires
	WHERE l.expires <= now() OR l.owner = excluded.owner
	RETURNING token`

// takeByNow reads first: an INSERT that finds a holder would lock the row until the transaction ends.
func takeByNow(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	found, err := sqltwin.Scan(c.QueryRowContext(ctx, `SELECT owner, token,
		(extract(epoch FROM expires - now()) * 1000)::bigint FROM locks WHERE key = $1 AND expires > now()`, []byte(r.Key)))
	if err != nil || found.Owner != "" && found.Owner != r.Owner {
		return found, err
	}
	got := sqltwin.Row{Owner: r.Owner, Left: ttl}
	err = c.QueryRowContext(ctx, takeByNowSQL, []byte(r.Key), []byte(r.Owner), ttl.Milliseconds()).Scan(&got.Token)
	if errors.Is(err, sql.ErrNoRows) {
		return sqltwin.Row{Owner: "somebody"}, nil
	}
	return got, err
}

// pollInTransaction waits and takes the key in one transaction.
func pollInTransaction(ctx context.Context, use sqltwin.Use, try sqltwin.Try) (l backend.Lease, err error) {
	err = use(ctx, func(c *sql.Conn) error {
		if _, err := c.ExecContext(ctx, `BEGIN`); err != nil {
			return err
		}
		same := func(_ context.Context, f func(c *sql.Conn) error) error { return f(c) }
		var failed error
		l, failed = sqltwin.Poll(ctx, same, try)
		_, err := c.ExecContext(context.WithoutCancel(ctx), `COMMIT`)
		return errors.Join(failed, err)
	})
	return l, err
}

// renewExpired prolongs the row of its owner, even after the lease has ended.
func renewExpired(ctx context.Context, c *sql.Conn, key, owner string, ttl time.Duration) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, `UPDATE locks SET expires = clock_timestamp() + $3 * interval '1 ms'
		WHERE key = $1 AND owner = $2`, []byte(key), []byte(owner), ttl.Milliseconds()))
}
