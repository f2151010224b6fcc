package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

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

// maxParams is how many parameters a statement has at most.
const maxParams = 2

// A step is a prepared statement with its parameters.
type step struct {
	statement statement
	params    [maxParams]int64 // as many as it has
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

// run sends steps, and last the label, as one request, and returns the first row of the last step. A label is parsed and no
// more: that is enough for pg_stat_activity.
func (s *session) run(ctx context.Context, label string, steps ...step) (row []string, err error) {
	rows, err := s.ask(ctx, func(f *pgproto3.Frontend) {
		var (
			bind    pgproto3.Bind
			execute pgproto3.Execute
			text    [maxParams][]byte
		)
		for _, st := range steps {
			d := s.prepared[st.statement]
			n := len(d.ParamOIDs)
			for i, p := range st.params[:n] {
				text[i] = strconv.AppendInt(text[i][:0], p, 10)
			}
			bind.PreparedStatement, bind.Parameters = d.Name, text[:n]
			f.SendBind(&bind) // which encodes it now
			f.SendExecute(&execute)
		}
		if label != "" {
			f.SendParse(&pgproto3.Parse{Query: label})
		}
		f.SendSync(&pgproto3.Sync{})
	})
	return first(rows), err
}

// simple sends SQL by the simple protocol, and returns the first row of the last statement that has one.
func (s *session) simple(ctx context.Context, sql string) (row []string, err error) {
	rows, err := s.ask(ctx, func(f *pgproto3.Frontend) { f.SendQuery(&pgproto3.Query{String: sql}) })
	return first(rows), err
}

// query sends one statement with parameters and returns its rows.
func (s *session) query(ctx context.Context, sql string, params ...string) (rows [][]string, err error) {
	return s.ask(ctx, func(f *pgproto3.Frontend) {
		var bind pgproto3.Bind
		for _, p := range params {
			bind.Parameters = append(bind.Parameters, []byte(p))
		}
		f.SendParse(&pgproto3.Parse{Query: sql})
		f.SendBind(&bind)
		f.SendExecute(&pgproto3.Execute{})
		f.SendSync(&pgproto3.Sync{})
	})
}

// ask sends one request, with the turn, and returns the rows of its last statement that has some. A session that does not
// answer until ctx ends is given up.
func (s *session) ask(ctx context.Context, send func(f *pgproto3.Frontend)) (rows [][]string, err error) {
	watched := ctx
	if s.attended {
		watched = context.Background()
	}
	rows, err = exchange(watched, s.conn, send)
	if errors.Is(err, errUnanswered) {
		s.abort()
		if backend.Ended(ctx) {
			err = backend.ContextError(ctx, nil)
		}
	}
	return rows, err
}

func first(rows [][]string) []string {
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}
