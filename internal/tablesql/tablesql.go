// Package tablesql contains the SQL that package sqltable and package fence share: how each database reads its clock,
// how a statement locks the row of a lease, and how clients create a table at the same time.
package tablesql

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Dialect is the SQL dialect of a database. Packages fence and sqltable export it.
type Dialect int

// The databases that can keep a table of leases.
const (
	Postgres Dialect = iota + 1
	MySQL            // and MariaDB
	SQLite
)

func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "postgres"
	case MySQL:
		return "mysql"
	case SQLite:
		return "sqlite"
	}
	return "unknown"
}

// Valid reports whether d is one of the dialects above.
func (d Dialect) Valid() bool { return d >= Postgres && d <= SQLite }

// DefaultTable is the name of the table of leases.
const DefaultTable = "anylock"

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// ValidTable reports whether name, which may have a schema, can stand unquoted in a statement.
func ValidTable(name string) bool { return tableName.MatchString(name) }

// The database's clock in microseconds since 1970. Postgres's now() is the time at which the transaction began, which
// may be long ago; date_part is faster than extract, and its float8 is exact to the microsecond until 2106. MySQL's
// NOW() is local time, which repeats an hour in autumn.
const (
	postgresNow = "(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint"
	mysqlNow    = "timestampdiff(MICROSECOND, '1970-01-01 00:00:00', utc_timestamp(6))"
	sqliteNow   = "CAST(unixepoch('subsec')*1000000 AS INTEGER)"
)

// mysqlWait is for how long a statement of MySQL has run, as it evaluates an expression. The difference of two local
// times is the same in every time zone. It is wrong only if summer time begins or ends meanwhile.
const mysqlWait = "greatest(0, timestampdiff(MICROSECOND, now(6), sysdate(6)))"

// words are the words of a template that differ between the dialects. CLOCK is the database's clock as the statement
// evaluates an expression. NOW is simpler on MySQL: the clock as the statement began. A comparison is written ==,
// because = assigns.
//
// Postgres looks an unqualified function, type or operator up in the search_path, which may begin with a schema of
// somebody else. So all of them are qualified.
var words = map[Dialect]*strings.Replacer{
	Postgres: strings.NewReplacer("NOW", postgresNow, "CLOCK", postgresNow, "EMPTY", "''::pg_catalog.bytea",
		"BYTES", "pg_catalog.bytea", "abs(", "pg_catalog.abs(",
		"==", qualified("="), "<>", qualified("<>"), "<=", qualified("<="), ">=", qualified(">="),
		"<", qualified("<"), ">", qualified(">"), "+", qualified("+"), "-", qualified("-")),
	MySQL: strings.NewReplacer("NOW", mysqlNow, "CLOCK", mysqlNow+"+"+mysqlWait, "EMPTY", "x''", "BYTES", "binary",
		"==", "="),
	SQLite: strings.NewReplacer("NOW", sqliteNow, "CLOCK", sqliteNow, "EMPTY", "x''", "BYTES", "blob",
		"greatest(", "max("),
}

// qualified returns one of Postgres's own operators. All qualified operators have the same precedence, so a template
// needs parentheses where an operand has an operator.
func qualified(operator string) string { return " OPERATOR(pg_catalog." + operator + ") " }

var placeholder = regexp.MustCompile(`\$[0-9]+`)

// A Statement is SQL for one dialect.
type Statement struct {
	Text  string
	order []int // the argument for each placeholder on MySQL, whose placeholders have no numbers
}

// Make translates template, whose placeholders are $1, $2 and so on, into the SQL of d.
func Make(d Dialect, table, template string) Statement {
	s := Statement{Text: strings.ReplaceAll(words[d].Replace(template), "TABLE", table)} // last: a name may contain NOW
	switch d {
	case SQLite:
		s.Text = placeholder.ReplaceAllStringFunc(s.Text, func(p string) string { return "?" + p[1:] })
	case MySQL:
		s.Text = placeholder.ReplaceAllStringFunc(s.Text, func(p string) string {
			n, err := strconv.Atoi(p[1:])
			if err != nil {
				panic(fmt.Sprintf("placeholder %s: %v", p, err))
			}
			s.order = append(s.order, n-1)
			return "?"
		})
	}
	return s
}

// Args returns the arguments in the order in which the statement needs them.
func (s Statement) Args(args ...any) []any {
	if s.order == nil {
		return args
	}
	list := make([]any, len(s.order))
	for i, n := range s.order {
		list[i] = args[n]
	}
	return list
}

// CheckLease returns the statement that selects one row if the owner $2 holds the key $1. Until the statement's
// transaction ends, nobody else is granted the key.
func CheckLease(d Dialect, table string) Statement {
	held := ` WHERE name==$1 AND owner==$2 AND expires>NOW`
	switch d {
	case Postgres:
		return Make(d, table, `SELECT 1 FROM TABLE`+held+` FOR SHARE`)
	case MySQL:
		return Make(d, table, `SELECT 1 FROM TABLE`+held+` LOCK IN SHARE MODE`) // MariaDB has no FOR SHARE
	}
	// SQLite has one lock for all rows, and only a write acquires the lock.
	return Make(d, table, `UPDATE TABLE SET token=token`+held+` RETURNING 1`)
}

// CreateTable returns the statement that creates a table if it does not exist. On Postgres, if several CREATE TABLE IF
// NOT EXISTS run at once, all but one may fail. The statement ignores such a failure if the table can be read then.
func CreateTable(d Dialect, table, columns string) string {
	create := `CREATE TABLE IF NOT EXISTS ` + table + ` ` + columns
	if d == Postgres {
		create = `DO $anylock$ BEGIN ` + create + `;
			EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
			PERFORM FROM ` + table + ` LIMIT 0; END $anylock$`
	}
	return create
}
