package sqltable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A class is what an error of a database means for a request.
type class int

const (
	unknown    class = iota // an error without a class: whether the statement ran is unknown
	conflict                // another statement conflicted, or ended this one; nothing has changed
	gone                    // the connection or the server is gone: a new connection may reach it or its successor
	demoted                 // the server accepts no writes: a new connection may reach its successor
	noTable                 // the table is missing
	impossible              // the database does not support or permit the statement
	refused                 // any other error from the database; nothing has changed
)

// MySQL's driver has no method that returns the error number. Only the text contains it: "Error 1213 (40001): Deadlock
// found…".
var mysqlError = regexp.MustCompile(`\bError (\d+) \([0-9A-Z]{5}\): `)

// classes maps error codes to classes: SQLSTATEs, as Postgres's drivers return them, or their first two characters, and
// MySQL's error numbers.
var classes = map[string]class{
	// serialization, deadlock, lock_timeout; statement_timeout, or a cancel request that a pooler sent to this session
	"40001": conflict, "40P01": conflict, "55P03": conflict, "57014": conflict,
	"57P01": gone, "57P02": gone, "57P03": gone, // shutdown, crash, starting
	"57P04": gone, "57P05": gone, // the database was dropped, idle_session_timeout
	"25006": demoted,
	"42P01": noTable,
	"42P10": impossible, "42703": impossible, "42501": impossible, "3F000": impossible, "0A000": impossible,
	"08": gone, "XX": gone, // a broken connection, as the server or a pooler reports it
	"53": refused, "57": refused, "42": refused, "22": refused, "23": refused, "25": refused,

	// deadlock, lock wait, changed since the last read; KILL QUERY, max_statement_time
	"1213": conflict, "1205": conflict, "1020": conflict, "1317": conflict, "1969": conflict,
	"1290": demoted, "1792": demoted, "1836": demoted,
	"1053": gone, "1927": gone, "4031": gone, // shutdown, connection killed, wait_timeout
	"1047": gone, "1105": gone, // Galera: the node is not ready; Vitess: a tablet is gone
	"2003": gone, "2006": gone, "2013": gone, // errors of MySQL's client: a proxy has lost its connection to the server
	"1146": noTable,
	"1142": impossible, "1044": impossible, "1045": impossible, "1054": impossible, "1049": impossible,
}

// sqliteClasses maps parts of the texts of SQLite's errors to classes.
var sqliteClasses = map[string]class{
	"SQLITE_BUSY": conflict, "database is locked": conflict, "database table is locked": conflict,
	"no such table": noTable, "database or disk is full": refused,
	"no such column": impossible, "ON CONFLICT clause does not match": impossible, "readonly database": impossible,
}

// classify returns the class of err. It uses interfaces and texts instead of the drivers' types, because the
// application may use any driver.
func classify(err error) class {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		code := state.SQLState()
		return cmp.Or(classes[code], classes[code[:min(len(code), 2)]])
	}
	text := err.Error()
	if m := mysqlError.FindStringSubmatch(text); m != nil {
		return cmp.Or(classes[m[1]], refused)
	}
	for part, c := range sqliteClasses {
		if strings.Contains(text, part) {
			return c
		}
	}
	return gone // also if a time limit has passed that is not the request's, as for one of several hosts
}

// translate returns err as callers may see it.
func (b *Backend) translate(ctx context.Context, err error) error {
	if err = kit.NotOurs(ctx, err); err == nil || errors.Is(err, backend.ErrUnavailable) || kit.Ended(ctx) {
		return err
	}
	switch classify(err) {
	case noTable:
		return fmt.Errorf("%w: create the table %s, as by anylock table --dialect %v: %w",
			backend.ErrUnsupported, b.options.Table, b.dialect, err)
	case impossible:
		return fmt.Errorf("%w: %w", backend.ErrUnsupported, err)
	}
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}
