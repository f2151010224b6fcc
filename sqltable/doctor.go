package sqltable

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/tablesql"
)

// facts are settings of a database and its table, by name.
type facts map[string]string

// A rule is [kit.Rule] for facts.
type rule = kit.Rule[facts]

// settingIs returns a check that reports the setting name if it has one of the values, which are lower case, or any
// value if there are none.
func settingIs(name string, values ...string) func(facts) string {
	return func(f facts) string {
		wrong := len(values) == 0 || slices.Contains(values, strings.ToLower(f[name]))
		return kit.When(f[name] != "" && wrong, "%s is %s", name, f[name])
	}
}

var (
	missingIndex = rule{Severity: backend.Critical, Code: "missing-index", Found: settingIs("unique index on name", "0"),
		Why: "without the index, one key may have several rows, and several holders",
		Set: "the table as anylock table prints it"}
	readOnly = rule{Severity: backend.Warning, Code: "read-only", Found: settingIs("read_only", "on", "1"),
		Why: "nothing can be granted or renewed, except by a superuser of MySQL, whose locks exclude nobody at the primary",
		Set: "the address of the primary, as by target_session_attrs=primary"}
	oneConnection = rule{Severity: backend.Warning, Code: "one-connection", Found: settingIs("most connections", "1"),
		Why: "a statement or transaction of the application keeps leases from being renewed",
		Set: "a *sql.DB of its own for the locks"}
)

// rules are the rules for each database. A critical one makes the database unusable: the store does not open.
var rules = map[Dialect][]rule{
	Postgres: {missingIndex, readOnly, oneConnection,
		{Severity: backend.Warning, Code: "asynchronous-commit", Found: settingIs("synchronous_commit", "off"),
			Why: "a crash of the server loses the last grants", Set: "synchronous_commit=on for the role of the locks"},
		{Severity: backend.Warning, Code: "fsync", Found: settingIs("fsync", "off"),
			Why: "a crash of the machine loses grants, or the database", Set: "fsync=on"},
		{Severity: backend.Warning, Code: "unlogged-table", Found: settingIs("persistence", "u"),
			Why: "a crash of the server empties the table", Set: "ALTER TABLE … SET LOGGED"},
		{Severity: backend.Info, Code: "isolation", Found: settingIs("isolation", "serializable", "repeatable read"),
			Why: "a statement that meets another one may fail. It is repeated, which costs time",
			Set: "read committed for the role of the locks"},
	},
	MySQL: {missingIndex, readOnly, oneConnection,
		{Severity: backend.Critical, Code: "autocommit", Found: settingIs("autocommit", "0"),
			Why: "no grant would be committed", Set: "autocommit=1 in the data source name"},
		{Severity: backend.Critical, Code: "not-innodb", Found: settingIs("engine"),
			Why: "only InnoDB locks rows until a transaction ends", Set: "ALTER TABLE … ENGINE=InnoDB"},
		{Severity: backend.Warning, Code: "asynchronous-commit",
			Found: settingIs("innodb_flush_log_at_trx_commit", "0", "2"),
			Why:   "a crash of the machine loses the last grants", Set: "innodb_flush_log_at_trx_commit=1"},
	},
	SQLite: {
		{Severity: backend.Warning, Code: "journal-mode", Found: settingIs("journal_mode"),
			Why: "readers keep others from writing", Set: "PRAGMA journal_mode=WAL"},
		{Severity: backend.Warning, Code: "busy-timeout", Found: settingIs("busy_timeout", "0"),
			Why: "a statement that meets another one fails. It is repeated, which costs time", Set: "PRAGMA busy_timeout=1000"},
		{Severity: backend.Warning, Code: "synchronous", Found: settingIs("synchronous", "0"),
			Why: "a crash of the machine may damage the database", Set: "PRAGMA synchronous=NORMAL"},
	},
}

// queries are the templates of the statements that read facts, as rows of a name and a value.
var queries = map[Dialect]string{
	Postgres: `SELECT * FROM (VALUES ('now', NOW::pg_catalog.text),
		('fsync', pg_catalog.current_setting('fsync')),
		('read_only', pg_catalog.current_setting('transaction_read_only')),
		('synchronous_commit', pg_catalog.current_setting('synchronous_commit')),
		('isolation', pg_catalog.current_setting('default_transaction_isolation')),
		('persistence', (SELECT relpersistence::pg_catalog.text FROM pg_catalog.pg_class
			WHERE oid==pg_catalog.to_regclass('TABLE'))),
		('unique index on name', (SELECT pg_catalog.count(*)::pg_catalog.text FROM pg_catalog.pg_index AS i
			JOIN pg_catalog.pg_attribute AS a ON a.attrelid==i.indrelid AND a.attnum==i.indkey[0]
			WHERE i.indrelid==pg_catalog.to_regclass('TABLE') AND a.attname=='name' AND i.indisunique AND i.indisvalid
				AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts==1))) AS facts`,
	MySQL: `SELECT 'now', NOW UNION ALL SELECT 'autocommit', @@autocommit UNION ALL SELECT 'read_only', @@read_only
		UNION ALL SELECT 'innodb_flush_log_at_trx_commit', @@innodb_flush_log_at_trx_commit
		UNION ALL SELECT 'engine', nullif(engine, 'InnoDB') FROM information_schema.tables WHERE ` + isTable + `
		UNION ALL SELECT 'unique index on name', count(*) FROM (SELECT 1 FROM information_schema.statistics
			WHERE ` + isTable + ` AND non_unique=0 GROUP BY index_name
			HAVING count(*)=1 AND max(column_name)='name' AND count(sub_part)=0) AS found`,
	SQLite: `SELECT 'now', NOW UNION ALL SELECT 'journal_mode', nullif(journal_mode, 'wal') FROM pragma_journal_mode
		UNION ALL SELECT 'synchronous', synchronous FROM pragma_synchronous
		UNION ALL SELECT 'busy_timeout', timeout FROM pragma_busy_timeout`,
}

// isTable is the condition for rows about the table in MySQL's information_schema.
const isTable = `table_schema=if('TABLE' LIKE '%.%', substring_index('TABLE', '.', 1), database())
	AND table_name=substring_index('TABLE', '.', -1)`

// read reads the facts of the database.
func (b *Backend) read(ctx context.Context) (facts, error) {
	s := tablesql.Make(b.dialect, b.options.Table, queries[b.dialect])
	return query(ctx, b, s, nil, func(rows *sql.Rows) (name, value string, err error) {
		var v sql.NullString
		err = rows.Scan(&name, &v)
		return name, v.String, err
	})
}

// Examine implements [backend.Examiner].
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]backend.Finding, error) {
		sent := time.Now()
		f, err := b.read(ctx)
		if err != nil {
			return nil, err
		}
		now, err := strconv.ParseInt(f["now"], 10, 64)
		findings := kit.CompareClocks("", time.UnixMicro(now), time.Millisecond, sent, time.Now())
		f["most connections"] = strconv.Itoa(b.db.Stats().MaxOpenConnections)
		return append(findings, kit.Apply(rules[b.dialect], "", f)...), err
	})
}
