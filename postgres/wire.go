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

// Requests use pgconn's Frontend instead of its Exec. Exec sends a cancel request whenever a context ends, which can
// crash PgBouncer 1.18 ("bad client state"). It also requests row descriptions, which are already known.

// errUnanswered means that the connection broke or was closed before the reply arrived. The connection must be closed.
var errUnanswered = errors.New("no answer from the server")

// longAgo, set as a connection's deadline, ends the pending request at once.
var longAgo = time.Unix(1, 0)

// exchange sends one request, and returns the rows of its last statement that returns rows. NULL becomes the empty
// string. The connection's deadline limits the exchange.
func exchange(conn *pgconn.PgConn, send func(f *pgproto3.Frontend)) (rows [][]string, err error) {
	f := conn.Frontend()
	send(f)
	ferr := f.Flush() // after a failure, the server's message may still be readable
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
			rows = nil // drop the rows of an earlier statement
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
