package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
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

// run sends steps, and last the label, as one request, and returns the first row of the last step.
func (s *session) run(ctx context.Context, label string, steps ...step) (row []string, err error) {
	var batch pgconn.Batch
	for _, st := range steps {
		d := s.prepared[st.statement]
		var params [][]byte
		if len(d.ParamOIDs) > 0 {
			params = [][]byte{strconv.AppendInt(nil, st.param, 10)}
		}
		batch.ExecStatement(d, params, nil, nil)
	}
	if label != "" {
		batch.ExecParams(label, nil, nil, nil, nil)
	}
	return rowOf(s.conn.ExecBatch(ctx, &batch), len(steps)-1)
}

// simple sends SQL by the simple protocol, and returns the first row of the last statement that has one.
func simple(ctx context.Context, conn *pgconn.PgConn, sql string) (row []string, err error) {
	return rowOf(conn.Exec(ctx, sql), -1)
}

// rowOf reads all results, and returns the first row of the nth, or of the last that has one if n is negative. NULL is
// empty.
func rowOf(results *pgconn.MultiResultReader, nth int) (row []string, err error) {
	for i := 0; results.NextResult(); i++ {
		r := results.ResultReader()
		for first := true; r.NextRow(); first = false {
			if !first || nth >= 0 && i != nth {
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
