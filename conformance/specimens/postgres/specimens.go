package postgres

import (
	"context"
	"hash/crc32"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// Collection is what Postgres is used for in a wrong way.
var Collection = specimens.Collection{
	Store: "Postgres",
	Twin:  Open,
	Specimens: []specimens.Specimen{
		{
			Name:  "unpinned-pool",
			Title: "Advisory lock through a pool",
			Story: "db.QueryRow acquires the lock and db.Exec releases it, each on any connection of the pool. An " +
				"advisory lock belongs to the session that acquired it. An unlock on another session only returns false, " +
				"which nobody checks, and the key stays locked until the pool closes the first connection. A session may " +
				"also acquire its locks again: two goroutines that get the same connection both hold the key. PgBouncer " +
				"in transaction mode has the same effect, even if the client keeps its connection.",
			See:    "Postgres manual, “Advisory Locks”; PgBouncer feature map, session-level advisory locks; LingByte/ling-base",
			Right:  "Keep the connection that locked for as long as the lease lives, and do not share it.",
			Sin:    []string{"takeUnpinned", "unlockUnpinned"},
			Virtue: []string{"take", "unlock"},
			Open: wrong(func(w *steps) {
				w.take, w.renew, w.unlock, w.lost = takeUnpinned, renewUnpinned, unlockUnpinned, forget
			}),
			Kills: []specimens.Kill{
				{Check: "OwnersOfOneClientExclude", Says: "a second owner was granted the key"},
				{Check: "RenewRacesRelease", Says: "Release of a live lease: lease lost"},
			},
		},
		{
			Name:  "16-bit-hash",
			Title: "Key hashed to 16 bits",
			Story: "Advisory locks are numbers, so names are hashed: here to 16 bits, to fit a smallint column or " +
				"the second half of a pair. Among 300 names, two have the same number with a probability of one half. " +
				"Then a job waits for an unrelated job, or deadlocks with itself when it needs both names.",
			See:    "golang-migrate, GenerateAdvisoryLockId, and its like with fewer bits",
			Right:  "Use all 64 bits of a good hash.",
			Sin:    []string{"number16"},
			Virtue: []string{"number"},
			Open:   wrong(func(w *steps) { w.number = number16 }),
			Kills:  []specimens.Kill{{Check: "KeysDoNotCollide", Says: "held by another owner"}},
		},
		{
			Name:  "32-bit-hash",
			Title: "Key hashed to 32 bits",
			Story: "Most examples hash with hashtext(name) or CRC-32. Among 77,000 names, two have the same number " +
				"with a probability of one half, and a table can easily have that many rows, customers or files. The " +
				"collision never shows in a test, and looks like a deadlock in production.",
			See:    "golang-migrate, GenerateAdvisoryLockId (CRC-32); many examples with hashtext",
			Right:  "Use all 64 bits of a good hash.",
			Sin:    []string{"number32"},
			Virtue: []string{"number"},
			Open:   wrong(func(w *steps) { w.number = number32 }),
			Kills:  []specimens.Kill{{Check: "KeysDoNotCollide", Says: "is the same: held by another owner"}},
		},
		{
			Name:  "xact-lock-in-autocommit",
			Title: "A transaction-level lock without a transaction",
			Story: "pg_advisory_xact_lock is recommended because nobody has to unlock it: the lock ends with the " +
				"transaction. Outside a transaction, the statement is a transaction by itself, which has ended when the " +
				"reply arrives. Every client gets the lock. The only sign is a warning when somebody unlocks.",
			See:    "Postgres manual, “Advisory Lock Functions”",
			Right:  "Lock for the session, or keep the transaction open for as long as the lease lives.",
			Sin:    []string{"tryTransactionSQL"},
			Virtue: []string{"trySQL"},
			Open:   wrong(func(w *steps) { w.take = takeBy(tryTransactionSQL) }),
			Kills:  []specimens.Kill{{Check: "ClientsShareStore", Says: "two clients were granted the same key"}},
		},
		{
			Name:  "no-lease",
			Title: "No lease, only a connection",
			Story: "The lock lives as long as its connection, and the connection of a dead process is closed, so a " +
				"TTL seems unnecessary. But a frozen process closes nothing, and neither does a host that lost its power " +
				"or its network. By default the server detects a lost host after two hours, and a frozen process never. A " +
				"timer in the client does not help, because it is frozen too.",
			See:    "Postgres manual, tcp_keepalives_idle; every library read for anylock's notes works so",
			Right:  "Let the server end an idle session after the TTL: idle_session_timeout, renewed by any statement.",
			Sin:    []string{"tryForEverSQL", "hangUpAtOnce"},
			Virtue: []string{"trySQL", "leave"},
			Open: wrong(func(w *steps) {
				w.take, w.renew, w.lost = takeBy(tryForEverSQL), renewByAsking, hangUpAtOnce
			}),
			Kills: []specimens.Kill{{Check: "FrozenHolderLosesKey", Says: "of another process is still refused"}},
		},
		{
			Name:  "unlock-with-callers-context",
			Title: "Unlock with a context that has ended",
			Story: "The code calls defer lock.Release(ctx) with the request's context. If the client has " +
				"disconnected or the request has timed out, this context has ended. pgx then sends nothing, returns the " +
				"context's error, and keeps the healthy connection, and with it the lock. The key stays locked until that " +
				"connection happens to be closed.",
			See:    "wpmgr #495",
			Right:  "Unlock with a separate, bounded context; close the connection if the unlock fails.",
			Sin:    []string{"unlockWithCallersContext"},
			Virtue: []string{"unlock"},
			Open: wrong(func(w *steps) {
				w.wrap, w.unlock = rememberContext, unlockWithCallersContext
			}),
			Kills: []specimens.Kill{{Check: "CancelledReleaseReleases", Says: "context already done: context canceled"}},
		},
	},
}

// wrong opens the store with some steps done in another way.
func wrong(change func(*steps)) specimens.Open {
	return func(_ context.Context, addrs ...string) (backend.Backend, error) {
		how := right()
		change(&how)
		return open(how, addrs)
	}
}

// takeUnpinned locks on any connection of the pool, and lets the pool have it back.
func takeUnpinned(ctx context.Context, s *store, r backend.Request, ttl time.Duration) (*hold, error) {
	h, err := take(ctx, s, r, ttl, trySQL)
	if err != nil {
		return nil, err
	}
	c := h.conn
	h.conn = nil
	s.pool.PutIn(c)
	return h, nil
}

// renewUnpinned sets the timer of whatever connection it gets.
func renewUnpinned(ctx context.Context, s *store, h *hold, ttl time.Duration) error {
	c, err := s.pool.Borrow(ctx)
	if err != nil {
		return err
	}
	defer s.pool.GiveBack(c)
	_, err = c.Exec(ctx, h.label+`SELECT set_config('idle_session_timeout', $1, false)`, millis(ttl))
	return err
}

// unlockUnpinned unlocks on whatever connection it gets.
func unlockUnpinned(ctx context.Context, s *store, h *hold) (unlocked bool, err error) {
	c, err := s.pool.Borrow(ctx)
	if err != nil {
		return false, err
	}
	defer s.pool.GiveBack(c)
	err = c.QueryRow(ctx, `SELECT pg_advisory_unlock($1)`, h.id).Scan(&unlocked)
	return unlocked, err
}

// forget leaves a lost lease to the pool.
func forget(*hold, time.Duration) {}

// number16 is what is left of a hash in a smallint.
func number16(key string) int64 { return number32(key) & 0xffff }

// number32 is CRC-32.
func number32(key string) int64 { return int64(crc32.ChecksumIEEE([]byte(key))) }

// tryTransactionSQL locks for the transaction, which is this statement.
const tryTransactionSQL = `SELECT CASE WHEN pg_try_advisory_xact_lock($1)
	THEN set_config('idle_session_timeout', $2, false) || ' ' || pg_current_xact_id()::text END`

// tryForEverSQL locks for as long as the connection lives.
const tryForEverSQL = `SELECT CASE WHEN pg_try_advisory_lock($1)
	THEN $2 || ' ' || pg_current_xact_id()::text END`

// renewByAsking shows that the connection lives.
func renewByAsking(ctx context.Context, s *store, h *hold, _ time.Duration) error {
	return renew(ctx, s, h, 0)
}

// hangUpAtOnce is the client's own timer: it ends the connection when the lease has ended.
func hangUpAtOnce(h *hold, _ time.Duration) { leave(h, 0) }

// A leaseWithContext remembers the context that Release was called with.
type leaseWithContext struct {
	*kit.Life
}

func rememberContext(_ *store, l *kit.Life) backend.Lease { return leaseWithContext{l} }

func (l leaseWithContext) Release(ctx context.Context) error {
	h := l.Data.(*hold)
	h.mu.Lock()
	h.callers = ctx
	h.mu.Unlock()
	return l.Life.Release(ctx)
}

// unlockWithCallersContext unlocks with the context that Release got.
func unlockWithCallersContext(ctx context.Context, s *store, h *hold) (unlocked bool, err error) {
	if h.callers != nil {
		ctx = h.callers
	}
	err = h.conn.QueryRow(ctx, `SELECT pg_advisory_unlock($1)`, h.id).Scan(&unlocked)
	return unlocked, err
}
