package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
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

// settingIs returns a check that reports the setting name if it has one of the values, which are lower case.
func settingIs(name string, values ...string) func(facts) string {
	return func(f facts) string {
		return kit.When(slices.Contains(values, strings.ToLower(f[name])), "%s is %s", name, f[name])
	}
}

var (
	missingIndex = rule{Severity: backend.Critical, Code: "missing-index", Found: settingIs("unique index on name", "0"),
		Why: "without the index, one key may have several rows, and several holders",
		Set: "the table as anylock table prints it"}
	readOnly = rule{Severity: backend.Critical, Code: "read-only", Found: settingIs("read_only", "on", "1", "true"),
		Why: "nothing can be granted or renewed", Set: "the address of the primary, as by target_session_attrs=primary"}
	isolation = rule{Severity: backend.Info, Code: "isolation", Found: func(f facts) string {
		level := strings.ToLower(cmp.Or(f["transaction_isolation"], f["tx_isolation"]))
		return kit.When(level == "serializable" || strings.HasPrefix(level, "repeatable"), "isolation is %s", level)
	},
		Why: "a statement that meets another one may fail. It is repeated, which costs time",
		Set: "read committed for the role of the locks"}
	oneConnection = rule{Severity: backend.Warning, Code: "one-connection", Found: settingIs("most connections", "1"),
		Why: "a statement or transaction of the application keeps leases from being renewed",
		Set: "a *sql.DB of its own for the locks"}
)

// refusals are the codes of rules that make a database unusable.
var refusals = []string{"missing-index", "autocommit", "not-innodb"}

var rules = map[Dialect][]rule{
	Postgres: {missingIndex, readOnly, isolation, oneConnection,
		{Severity: backend.Warning, Code: "asynchronous-commit", Found: settingIs("synchronous_commit", "off"),
			Why: "a crash of the server loses the last grants", Set: "synchronous_commit=on for the role of the locks"},
		{Severity: backend.Warning, Code: "fsync", Found: settingIs("fsync", "off"),
			Why: "a crash of the machine loses grants, or the database", Set: "fsync=on"},
		{Severity: backend.Warning, Code: "unlogged-table", Found: settingIs("persistence", "u"),
			Why: "a crash of the server empties the table", Set: "ALTER TABLE … SET LOGGED"},
	},
	MySQL: {missingIndex, readOnly, isolation, oneConnection,
		{Severity: backend.Critical, Code: "autocommit", Found: settingIs("autocommit", "off", "0"),
			Why: "no grant would be committed", Set: "autocommit=1 in the data source name"},
		{Severity: backend.Critical, Code: "not-innodb", Found: func(f facts) string {
			return kit.When(f["engine"] != "" && !strings.EqualFold(f["engine"], "innodb"), "engine is %s", f["engine"])
		}, Why: "only InnoDB locks rows until a transaction ends", Set: "ALTER TABLE … ENGINE=InnoDB"},
		{Severity: backend.Warning, Code: "asynchronous-commit",
			Found: settingIs("innodb_flush_log_at_trx_commit", "0", "2"),
			Why:   "a crash of the machine loses the last grants", Set: "innodb_flush_log_at_trx_commit=1"},
	},
	SQLite: {
		{Severity: backend.Warning, Code: "journal-mode", Found: func(f facts) string {
			return kit.When(f["journal_mode"] != "wal", "journal_mode is %s", f["journal_mode"])
		}, Why: "readers keep others from writing", Set: "PRAGMA journal_mode=WAL"},
		{Severity: backend.Warning, Code: "busy-timeout", Found: settingIs("busy_timeout", "0"),
			Why: "a statement that meets another one fails. It is repeated, which costs time", Set: "PRAGMA busy_timeout=1000"},
		{Severity: backend.Warning, Code: "synchronous", Found: settingIs("synchronous", "0"),
			Why: "a crash of the machine may damage the database", Set: "PRAGMA synchronous=NORMAL"},
	},
}

// queries are the queries that read facts: each returns rows of a name and a value. $1 is the table's name.
var queries = map[Dialect][]string{
	Postgres: {`SELECT * FROM (VALUES ('now', (NOW)::text),
		('transaction_isolation', current_setting('default_transaction_isolation')),
		('synchronous_commit', current_setting('synchronous_commit')), ('fsync', current_setting('fsync')),
		('read_only', current_setting('transaction_read_only')),
		('persistence', (SELECT relpersistence::text FROM pg_class WHERE oid=to_regclass($1))),
		('unique index on name', (SELECT count(*)::text FROM pg_index AS i
			JOIN pg_attribute AS a ON a.attrelid=i.indrelid AND a.attnum=i.indkey[0]
			WHERE i.indrelid=to_regclass($1) AND a.attname='name' AND i.indisunique AND i.indisvalid AND i.indimmediate
				AND i.indpred IS NULL AND i.indnkeyatts=1))) AS facts`},
	MySQL: {`SHOW VARIABLES WHERE variable_name IN ('autocommit', 'tx_isolation', 'transaction_isolation', 'read_only',
			'innodb_flush_log_at_trx_commit')`,
		`SELECT 'now', NOW`,
		`SELECT 'engine', engine FROM information_schema.tables
			WHERE table_schema=if($1 LIKE '%.%', substring_index($1, '.', 1), database())
				AND table_name=substring_index($1, '.', -1)
		UNION ALL SELECT 'unique index on name', count(*) FROM information_schema.statistics AS s
			WHERE s.table_schema=if($1 LIKE '%.%', substring_index($1, '.', 1), database())
				AND s.table_name=substring_index($1, '.', -1) AND s.non_unique=0 AND s.column_name='name'
				AND s.sub_part IS NULL AND s.seq_in_index=1 AND NOT EXISTS (SELECT 1 FROM information_schema.statistics AS more
				WHERE more.table_schema=s.table_schema AND more.table_name=s.table_name AND more.index_name=s.index_name
					AND more.seq_in_index=2)`},
	SQLite: {`SELECT 'now', NOW UNION ALL SELECT 'journal_mode', journal_mode FROM pragma_journal_mode
		UNION ALL SELECT 'synchronous', synchronous FROM pragma_synchronous
		UNION ALL SELECT 'busy_timeout', timeout FROM pragma_busy_timeout`},
}

// read reads the facts of the database.
func (b *Backend) read(ctx context.Context) (f facts, err error) {
	_, err = b.request(ctx, func(ctx context.Context) error {
		f = facts{"most connections": strconv.Itoa(b.db.Stats().MaxOpenConnections)}
		for _, query := range queries[b.dialect] {
			var args []any
			if strings.Contains(query, "$1") {
				args = []any{b.options.Table}
			}
			err := b.query(ctx, tablesql.Make(b.dialect, b.options.Table, query), args, func(rows *sql.Rows) error {
				var name string
				var value sql.NullString
				err := rows.Scan(&name, &value)
				f[strings.ToLower(name)] = value.String
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return f, err
}

// Examine implements [backend.Examiner].
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]backend.Finding, error) {
		sent := time.Now()
		f, err := b.read(ctx)
		if err != nil {
			return nil, err
		}
		received := time.Now()
		now, err := strconv.ParseInt(f["now"], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the database's clock: %w", err)
		}
		return slices.Concat(kit.CompareClocks("", time.UnixMicro(now), time.Millisecond, sent, received),
			kit.Apply(rules[b.dialect], "", f)), nil
	})
}
