package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/anylock/lock/backend"
)

var (
	//go:embed try.sql
	trySQL string
	//go:embed try_durable.sql
	tryDurableSQL string
	//go:embed wait.sql
	waitSQL string
	//go:embed wait_durable.sql
	waitDurableSQL string
	//go:embed timeout.sql
	timeoutSQL string
	//go:embed renew.sql
	renewSQL string
	//go:embed release.sql
	releaseSQL string
	//go:embed look.sql
	lookSQL string
	//go:embed setup.sql
	setupSQL string
	//go:embed check_interval.sql
	checkIntervalSQL string
	//go:embed inspect.sql
	inspectSQL string
	//go:embed ghost.sql
	ghostSQL string
	//go:embed begin.sql
	beginSQL string
	//go:embed prolong.sql
	prolongSQL string
	//go:embed token.sql
	tokenSQL string
	//go:embed token_durable.sql
	tokenDurableSQL string
)

// A statement is one that a session of ModeSession has prepared when it connected.
type statement int

const (
	stTry statement = iota
	stWait
	stTimeout
	stRenew
	stRelease
	statements
)

// texts are the statements' SQL.
func (o Options) texts() [statements]string {
	texts := [statements]string{trySQL, waitSQL, timeoutSQL, renewSQL, releaseSQL}
	if o.Durable {
		texts[stTry], texts[stWait] = tryDurableSQL, waitDurableSQL
	}
	return texts
}

// A step is a prepared statement with its parameters, of which there is one at most.
type step struct {
	statement statement
	param     int64
}

// prepare prepares all statements in one request. Their names are random, as a pooler may give a session on with those of
// another client.
func prepare(ctx context.Context, conn *pgconn.PgConn, o Options) (prepared [statements]*pgconn.StatementDescription, err error) {
	suffix := randomName()
	name := func(i int) string { return fmt.Sprintf("anylock_%s_%d", suffix, i) }
	p := conn.StartPipeline(ctx)
	for i, text := range o.texts() {
		p.SendPrepare(name(i), text, nil)
	}
	err = p.Sync()
	for i := 0; err == nil && i < len(prepared); i++ {
		var result any
		if result, err = p.GetResults(); err == nil {
			prepared[i], _ = result.(*pgconn.StatementDescription)
			if prepared[i] == nil {
				err = fmt.Errorf("unexpected answer %T to a prepare", result)
				break
			}
			prepared[i].Name = name(i) // a pipeline's answer leaves it out
		}
	}
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	return prepared, err
}

// run sends steps, and last the label, as one request, and returns the first row of the last step. NULL is empty. A label is
// parsed and no more: that is enough for pg_stat_activity.
func (s *session) run(ctx context.Context, label string, steps ...step) (row []string, err error) {
	f := s.conn.Frontend()
	for _, st := range steps {
		d := s.prepared[st.statement]
		bind := pgproto3.Bind{PreparedStatement: d.Name}
		if len(d.ParamOIDs) > 0 {
			bind.Parameters = [][]byte{strconv.AppendInt(nil, st.param, 10)}
		}
		f.SendBind(&bind)
		f.SendExecute(&pgproto3.Execute{})
	}
	if label != "" {
		f.SendParse(&pgproto3.Parse{Query: label})
	}
	f.SendSync(&pgproto3.Sync{})
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = s.conn.Conn().SetDeadline(time.Unix(1, 0)) // in the past
	})
	row, err = s.answer(f, len(steps))
	if !stop() {
		<-ended
		_ = s.conn.Conn().SetDeadline(time.Time{}) // the answer may have been there already
	}
	if errors.Is(err, errUnanswered) {
		s.abort()
		if ctx.Err() != nil {
			err = backend.ContextError(ctx, nil)
		}
	}
	return row, err
}

// answer reads what comes back for so many steps.
func (s *session) answer(f *pgproto3.Frontend, steps int) (row []string, err error) {
	if err := f.Flush(); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	for complete := 0; ; {
		m, rerr := s.conn.ReceiveMessage(context.Background())
		if rerr != nil && code(rerr) != "" {
			return nil, rerr // the server has ended the session
		}
		if rerr != nil {
			return nil, fmt.Errorf("%w: %w", errUnanswered, rerr)
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			if complete == steps-1 && row == nil {
				for _, v := range m.Values {
					row = append(row, string(v))
				}
			}
		case *pgproto3.CommandComplete:
			complete++
		case *pgproto3.ErrorResponse:
			err = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			return row, err
		}
	}
}

// errUnanswered means that the connection broke, or was given up, before the answer was there.
var errUnanswered = errors.New("no answer from the server")

// simple sends SQL by the simple protocol, and returns the first row of the last statement that has one.
func simple(ctx context.Context, conn *pgconn.PgConn, sql string) (row []string, err error) {
	return lastRow(conn.Exec(ctx, sql))
}

// lastRow reads all results, and returns the first row of the last that has one. NULL is empty.
func lastRow(results *pgconn.MultiResultReader) (row []string, err error) {
	for results.NextResult() {
		r := results.ResultReader()
		for first := true; r.NextRow(); first = false {
			if !first {
				continue
			}
			row = row[:0]
			for _, v := range r.Values() {
				row = append(row, string(v))
			}
		}
		if _, err := r.Close(); err != nil {
			_ = results.Close() // the same error
			return nil, err
		}
	}
	return row, results.Close()
}
