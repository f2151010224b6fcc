package postgres

import (
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Every statement qualifies its names with their schema, because a role's search_path may put another schema before
// pg_catalog. This includes operators, which are looked up in the same way.
var (
	//go:embed try.sql
	trySQL string
	//go:embed wait.sql
	waitSQL string
	//go:embed timeout.sql
	timeoutSQL string
	//go:embed renew.sql
	renewSQL string
	//go:embed server.sql
	serverSQL string
	//go:embed setup.sql
	setupSQL string
	//go:embed check_interval.sql
	checkIntervalSQL string
	//go:embed inspect.sql
	inspectSQL string
	//go:embed orphan.sql
	orphanSQL string
	//go:embed break.sql
	breakSQL string
	//go:embed doctor.sql
	doctorSQL string
	//go:embed capacity.sql
	capacitySQL string
	//go:embed probe.sql
	probeSQL string
)

const tokenPlace = "TOKEN" // placeholder in SQL for the expression that returns the token

// A statement is a prepared statement. Each session prepares all of them when it connects.
type statement int

const (
	stTry statement = iota
	stWait
	stTryShared
	stWaitShared
	stTimeout
	stRenew
)

// prepare returns the SQL that prepares the statements.
func (o Options) prepare() string {
	token := "pg_catalog.pg_current_xact_id()::pg_catalog.text"
	// With the message, the commit waits for the write-ahead log, so that no token repeats after a crash.
	if o.Durable {
		token += " OPERATOR(pg_catalog.||) pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'anylock', " +
			"'')::pg_catalog.text, 0)"
	}
	const grant = " (bigint, pg_catalog.xid)"
	shared := strings.NewReplacer(tokenPlace, token, "advisory_lock(", "advisory_lock_shared(")
	exclusive := strings.NewReplacer(tokenPlace, token)
	var sql strings.Builder
	for st, text := range []string{
		stTry: grant + " AS " + exclusive.Replace(trySQL), stWait: grant + " AS " + exclusive.Replace(waitSQL),
		stTryShared: grant + " AS " + shared.Replace(trySQL), stWaitShared: grant + " AS " + shared.Replace(waitSQL),
		stTimeout: " (pg_catalog.text) AS " + timeoutSQL, stRenew: " AS " + renewSQL,
	} {
		sql.WriteString("PREPARE " + statement(st).name() + text + ";\n")
	}
	return sql.String()
}

// name returns the name of the prepared statement.
func (st statement) name() string { return "anylock_" + strconv.Itoa(int(st)) }

// run sends a label and a statement with its parameters as one request, and returns the statement's first row. If the
// session's idle timeout differs from timeout, the request first sets it.
//
// The request is one message. The server executes it when it is complete, and then starts its own timer. pgx would send
// several messages for a prepared statement. If the path breaks, the last of them may get lost. The session would then
// wait for that message while it holds the lock, and none of the server's timers would run.
func (s *session) run(label string, timeout time.Duration, st statement, params ...int64) (row []string, err error) {
	sql := label
	if s.timeout != timeout {
		sql += execute(stTimeout, timeout.Milliseconds())
	}
	if row, err = s.simple(sql + execute(st, params...)); err == nil {
		s.b.pool.mu.Lock()
		defer s.b.pool.mu.Unlock()
		s.timeout = timeout
	}
	return row, err
}

// execute returns the SQL that executes a statement.
func execute(st statement, params ...int64) string {
	sql := "EXECUTE " + st.name()
	if len(params) > 0 {
		texts := make([]string, len(params))
		for i, p := range params {
			texts[i] = strconv.FormatInt(p, 10)
		}
		sql += "('" + strings.Join(texts, "','") + "')"
	}
	return sql + ";"
}

// simple sends SQL by the simple protocol, and returns the first row of the last statement that returns rows.
func (s *session) simple(sql string) (row []string, err error) {
	return firstRow(s.roundTrip(func(f *pgproto3.Frontend) { f.SendQuery(&pgproto3.Query{String: sql}) }))
}

func firstRow(rows [][]string, err error) ([]string, error) {
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0:
		return nil, errors.New("no row in the server's answer")
	}
	return rows[0], nil
}

// query sends one statement with parameters and returns its rows.
func (s *session) query(sql string, params ...string) (rows [][]string, err error) {
	return s.roundTrip(func(f *pgproto3.Frontend) {
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

// These functions have the same object id in the catalog of every server.
const (
	pgAdvisoryUnlock       = 2884 // pg_advisory_unlock(bigint)
	pgAdvisoryUnlockShared = 2885 // pg_advisory_unlock_shared(bigint)
)

// call calls a server function that has one integer parameter. Like run, it sends one message. The server need not
// parse or plan a statement, which saves a quarter of its work.
func (s *session) call(function uint32, param int64) (row []string, err error) {
	return firstRow(s.roundTrip(func(f *pgproto3.Frontend) {
		text := strconv.AppendInt(nil, param, 10)
		f.Send(&pgproto3.FunctionCall{Function: function, Arguments: [][]byte{text}})
	}))
}

// roundTrip sends one request, and returns the rows of its last statement that returns rows. The caller must have the
// turn. If the reply does not arrive in time, roundTrip aborts the session.
func (s *session) roundTrip(send func(f *pgproto3.Frontend)) (rows [][]string, err error) {
	rows, err = exchange(s.conn, send)
	// During Close, the session is not aborted: if it has a lease, the server's timer ends it.
	if errors.Is(err, errUnanswered) && s.b.leases.Base().Err() == nil {
		s.abort()
	}
	return rows, err
}
