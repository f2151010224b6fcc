package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Requests go through pgconn's frontend rather than its Exec: that sends a cancel request whenever a context ends, by
// which PgBouncer 1.18 can crash ("bad client state"), and asks for descriptions that are known.

// errUnanswered means that the connection broke, or was given up, before the answer was there. It must be closed.
var errUnanswered = errors.New("no answer from the server")

// longAgo as a connection's deadline ends the request on it.
var longAgo = time.Unix(1, 0)

// exchange sends one request, and returns the rows of its last statement that returns some. NULL is empty. It lasts
// until the connection's deadline.
func exchange(conn *pgconn.PgConn, send func(f *pgproto3.Frontend)) (rows [][]string, err error) {
	f := conn.Frontend()
	send(f)
	ferr := f.Flush() // where it fails, the server may have said why
	for {
		m, rerr := conn.ReceiveMessage(context.Background())
		if rerr != nil && code(rerr) != "" {
			return nil, rerr // the server has ended the session
		}
		if rerr != nil {
			return nil, fmt.Errorf("%w: %w", errUnanswered, cmp.Or(ferr, rerr))
		}
		switch m := m.(type) {
		case *pgproto3.RowDescription:
			rows = nil // another statement's
		case *pgproto3.DataRow:
			row := make([]string, len(m.Values))
			for i, v := range m.Values {
				row[i] = string(v)
			}
			rows = append(rows, row)
		case *pgproto3.FunctionCallResponse:
			rows = [][]string{{string(m.Result)}}
		case *pgproto3.ErrorResponse:
			err = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			return rows, err
		}
	}
}
