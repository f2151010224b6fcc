package sqltable

import (
	"strconv"
	"strings"
	"sync"

	"github.com/anylock/lock/internal/tablesql"
)

// statements are the SQL statements of a Backend. A row remains after its lease ends, to keep the last token, and is
// deleted a day later (see purge.go). A released row has an empty owner, and expires is minus the time of its release.
// Times are microseconds since 1970 by the database's clock.
type statements struct {
	create   string             // creates the table
	grant    tablesql.Statement // grants the key $1 to the owner $2 for $3 µs unless another owner holds the key
	add      tablesql.Statement // MySQL only: adds a free row for the key $1
	unlocked tablesql.Statement // reads the row of the key $1, unless a transaction has locked it; not for SQLite
	release  tablesql.Statement // frees the key $1 if $2 is its owner and the lease has not expired
	list     tablesql.Statement // reads the rows of the held keys from $1 on
	ended    tablesql.Statement // reads rows of keys that have been free for $1 µs
	purge    tablesql.Statement // deletes the key $2 if it has been free for $1 µs

	// The statements for 1, 2, 4, … and maxBatch keys. They are long, so that each is made when it is first needed.
	renew [maxBatchBits + 1]func() tablesql.Statement // renews leases, see renewal
	rows  [maxBatchBits + 1]func() tablesql.Statement // reads the rows of keys
}

// upsert checks and writes in one statement, on Postgres and SQLite. It first looks for a holder, so that a refusal
// writes nothing. If the same owner repeats the statement, an earlier copy that had to wait must not shorten the lease.
const upsert = `INSERT INTO TABLE AS l (name, owner, token, expires)
	SELECT CAST($1 AS BYTES), CAST($2 AS BYTES), NOW, NOW+CAST($3 AS bigint)
	WHERE NOT EXISTS (SELECT 1 FROM TABLE AS h WHERE h.name==$1 AND h.owner<>$2 AND h.expires>NOW)
	ON CONFLICT (name) DO UPDATE SET owner=excluded.owner,
		token=CASE WHEN l.owner==excluded.owner AND l.expires>NOW THEN l.token ELSE greatest(l.token+1, excluded.token) END,
		expires=CASE WHEN l.owner==excluded.owner THEN greatest(l.expires, excluded.expires) ELSE excluded.expires END
	WHERE l.expires<=NOW OR l.owner==excluded.owner
	RETURNING token`

// update is upsert for MySQL. MySQL assigns from left to right, so owner must come last. INSERT … ON DUPLICATE KEY
// UPDATE would deadlock.
const update = `UPDATE TABLE SET
	token=last_insert_id(CASE WHEN owner==$2 AND expires>NOW THEN token ELSE greatest(token+1, NOW) END),
	expires=CASE WHEN owner==$2 THEN greatest(expires, NOW+$3) ELSE NOW+$3 END,
	owner=$2
	WHERE name==$1 AND (expires<=NOW OR owner==$2)`

const (
	// One statement renews at most maxBatch leases. MariaDB turns a list of 1000 values into a subquery, for which it may
	// lock rows that are not in the list.
	maxBatch     = 1 << maxBatchBits
	maxBatchBits = 9
)

func newStatements(d Dialect, table string) statements {
	make := func(template string) tablesql.Statement { return tablesql.Make(d, table, template) }
	s := statements{
		create:   tablesql.CreateTable(d, table, columns[d]),
		grant:    make(map[Dialect]string{Postgres: upsert, MySQL: update, SQLite: upsert}[d]),
		add:      make(`INSERT IGNORE INTO TABLE (name, owner, token, expires) VALUES ($1, EMPTY, 0, -NOW)`),
		unlocked: make(readRows + `name==$1 FOR UPDATE SKIP LOCKED`),
		release:  make(`UPDATE TABLE SET owner=EMPTY, expires=-NOW WHERE name==$1 AND owner==$2 AND expires>NOW`),
		list:     make(readRows + `name>=$1 AND expires>NOW`),
		ended:    make(readRows + `abs(expires)<(NOW-$1) LIMIT ` + strconv.Itoa(purgeMost)),
		purge:    make(`DELETE FROM TABLE WHERE abs(expires)<(NOW-$1) AND name==$2`),
	}
	for i := range s.renew {
		s.renew[i] = sync.OnceValue(func() tablesql.Statement { return make(renewal(d, 1<<i)) })
		s.rows[i] = sync.OnceValue(func() tablesql.Statement { return make(readRows + in(d, "name", 1<<i, 1)) })
	}
	return s
}

// readRows is the beginning of each statement that reads rows.
const readRows = `SELECT name, owner, token, expires-NOW FROM TABLE WHERE `

// renewal returns the template of a statement that renews n leases to $1 µs from now. Their keys follow in $2 and so
// on, and then their owners. An owner is never used for two keys. For several leases on Postgres or MySQL, the
// statement skips rows that a transaction has locked (package fence): otherwise one long transaction would delay the
// renewal of all leases. The statement may have to wait for a row, while the lease ends, or while a later renewal is
// answered. With NOW instead of CLOCK, it would renew the ended lease, or shorten what the later one has set. Without
// FORCE INDEX, MySQL may read the whole of a small table and lock all rows, which other statements would then skip.
func renewal(d Dialect, n int) string {
	live := ` WHERE ` + in(d, "name", n, 2) + ` AND ` + in(d, "owner", n, 2+n) + ` AND expires>CLOCK`
	switch {
	case n == 1 || d == SQLite:
		return `UPDATE TABLE SET expires=CLOCK+$1` + live
	case d == MySQL:
		return `UPDATE TABLE AS l FORCE INDEX (PRIMARY) JOIN (SELECT name FROM TABLE FORCE INDEX (PRIMARY)` + live +
			` FOR UPDATE SKIP LOCKED) AS unlocked ON l.name==unlocked.name SET l.expires=CLOCK+$1`
	}
	return `UPDATE TABLE AS l SET expires=CLOCK+$1 FROM (SELECT name FROM TABLE` + live +
		` FOR UPDATE SKIP LOCKED) AS unlocked WHERE l.name==unlocked.name AND l.expires>CLOCK`
}

// in returns the condition that column has the value of one of n placeholders, of which first is the first.
func in(d Dialect, column string, n, first int) string {
	placeholders := make([]string, n)
	for i := range placeholders {
		placeholders[i] = "$" + strconv.Itoa(first+i)
	}
	list := strings.Join(placeholders, ", ")
	if d == Postgres { // IN would look up its operator in the search_path
		return column + `==ANY (ARRAY[` + list + `]::BYTES[])`
	}
	return column + ` IN (` + list + `)`
}

// columns are the columns of the table.
var columns = map[Dialect]string{
	// Without its schema, Postgres looks bytea up in the search_path. A half-full page has room for renewed rows.
	Postgres: columnsOf("pg_catalog.bytea", "pg_catalog.bytea") + " WITH (fillfactor = 50)",
	MySQL:    columnsOf("varbinary(1024)", "varbinary(255)") + " ENGINE=InnoDB",
	SQLite:   columnsOf("BLOB", "BLOB") + " WITHOUT ROWID",
}

// columnsOf returns the columns for these types of names and owners. The types are binary, because MySQL's text types
// treat "a", "A" and "a " as the same value.
func columnsOf(name, owner string) string {
	return `(
	name ` + name + ` NOT NULL PRIMARY KEY,
	owner ` + owner + ` NOT NULL,
	token bigint NOT NULL,
	expires bigint NOT NULL
)`
}

// DDL returns the statement that creates a table of leases, for the application's migrations. An empty name means
// DefaultTable. Errors match backend.ErrInvalid.
func DDL(d Dialect, table string) (string, error) {
	o, err := (&Options{Table: table}).validate(d)
	if err != nil {
		return "", err
	}
	return "CREATE TABLE IF NOT EXISTS " + o.Table + " " + columns[d], nil
}
