package fence

import (
	"context"
	"database/sql"
	"fmt"
)

// Column is one or two columns of your table that keep the highest tokens seen for its row, as signed 64-bit integers.
// NULL and 0 mean that no token has been seen. A Column is a plain value, safe for concurrent use.
type Column struct {
	row               string // prefix of a row's name in errors; the key follows it
	exclusive, shared statements
}

// NewColumn returns the column token of a table whose column key is unique, for a resource without shared leases. The
// names are inserted into statements unquoted: never use untrusted input. Postgres looks the operator = of the key's
// type up in the search_path, as in your own statements, because a type such as citext has an operator of its own.
func NewColumn(d Dialect, table, key, token string) Column {
	return Column{
		row:       table + " " + key + "=",
		exclusive: columnStatements(syntaxes[d], table, key, token, token),
	}
}

// NewColumns is like NewColumn, with a second column that keeps the highest shared token.
func NewColumns(d Dialect, table, key, token, sharedToken string) Column {
	s := syntaxes[d]
	highest := s.max("COALESCE("+token+", 0)", "COALESCE("+sharedToken+", 0)")
	return Column{
		row:       table + " " + key + "=",
		exclusive: columnStatements(s, table, key, token, highest),
		shared:    columnStatements(s, table, key, sharedToken, "COALESCE("+token+", 0)"),
	}
}

// columnStatements returns the statements that raise column and compare the token with seen.
func columnStatements(s syntax, table, key, column, seen string) statements {
	raise := `UPDATE ` + table + ` SET ` + column + ` = ` + s.max("COALESCE("+column+", 0)", s.token) +
		` WHERE ` + key + ` = ` + s.key
	return s.statements(raise, seen+", "+column, table, key)
}

// Check is like Table.Check, for the row with that key. Without such a row the error matches sql.ErrNoRows. If the
// column has not kept the token, because it is not a 64-bit integer, the error is lock.ErrInvalid. A Column of NewColumn
// knows only exclusive tokens.
func (c Column) Check(ctx context.Context, tx *sql.Tx, key any, token uint64) error {
	return c.exclusive.check(ctx, tx, c.row+fmt.Sprint(key), key, token)
}

// CheckShared is like Table.CheckShared, for the row with that key. For a Column of NewColumn, which has no place for
// shared tokens, the error is lock.ErrInvalid.
func (c Column) CheckShared(ctx context.Context, tx *sql.Tx, key any, token uint64) error {
	return c.shared.check(ctx, tx, c.row+fmt.Sprint(key), key, token)
}
