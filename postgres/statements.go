package postgres

import (
	"embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Every statement names the schema of what it uses, because a role's search_path may put another schema before
// pg_catalog. An operator without its schema would be looked up there too.
//
//go:embed *.sql
var files embed.FS

var (
	trySQL           = sqlOf("try")
	waitSQL          = sqlOf("wait")
	timeoutSQL       = sqlOf("timeout")
	renewSQL         = sqlOf("renew")
	lookSQL          = sqlOf("look")
	setupSQL         = sqlOf("setup")
	checkIntervalSQL = sqlOf("check_interval")
	inspectSQL       = sqlOf("inspect")
	ghostSQL         = sqlOf("ghost")
	breakSQL         = sqlOf("break")
	doctorSQL        = sqlOf("doctor")
	capacitySQL      = sqlOf("capacity")
	probeSQL         = sqlOf("probe")
)

func sqlOf(name string) string {
	text, err := files.ReadFile(name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

const tokenPlace = "TOKEN" // in SQL, for what gives a grant its token

// A statement is one that a session prepares: when it connects, or those of shared locks together with its first one.
type statement int

const (
	stTry statement = iota
	stWait
	stTimeout
	stRenew
	stTryShared // the first that a session prepares late
	stWaitShared
	statements
)

// shared returns the statement that does for a shared lock what st does for an exclusive one.
func (st statement) shared() statement {
	if st == stWait {
		return stWaitShared
	}
	return stTryShared
}

// texts are the statements' SQL, and the types of their parameters.
func (o Options) texts() [statements][2]string {
	token := "pg_catalog.pg_current_xact_id()::pg_catalog.text"
	// the message makes the commit wait for the write-ahead log, so that no crash gives the same token again
	if o.Durable {
		token += " OPERATOR(pg_catalog.||) pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'anylock', " +
			"'')::pg_catalog.text, 0)"
	}
	grant := func(sql string) [2]string {
		return [2]string{strings.ReplaceAll(sql, tokenPlace, token), "(bigint, pg_catalog.xid)"}
	}
	shared := func(sql string) string { return strings.Replace(sql, "advisory_lock(", "advisory_lock_shared(", 1) }
	return [statements][2]string{
		stTry: grant(trySQL), stWait: grant(waitSQL),
		stTimeout: {timeoutSQL, "(pg_catalog.text)"}, stRenew: {renewSQL, ""},
		stTryShared: grant(shared(trySQL)), stWaitShared: grant(shared(waitSQL)),
	}
}

// prepare is the SQL that prepares the statements from first on, up to but without end.
func (o Options) prepare(first, end statement) string {
	var sql strings.Builder
	texts := o.texts()
	for st := first; st < end; st++ {
		sql.WriteString("PREPARE " + st.name() + " " + texts[st][1] + " AS " + texts[st][0] + ";\n")
	}
	return sql.String()
}

// name is that of a prepared statement.
func (st statement) name() string { return "anylock_" + strconv.Itoa(int(st)) }

// setUp sets the session's timers and prepares the statements of exclusive leases.
func (s *session) setUp() error {
	_, err := s.simple(setupSQL + ";\n" + s.b.options.prepare(stTry, stTryShared))
	switch {
	case lacking(err):
		return refused("the server lacks what Postgres 14 has: %v; keep leases in a table, with a URL that begins with "+
			"postgres+table://", err)
	case err != nil:
		return err
	}
	if _, err = s.simple(checkIntervalSQL); s.isBroken() {
		return err
	}
	return nil // what has no such setting goes without
}

// run sends a label and a statement with its parameters as one request, with one before it that sets the session's idle
// timeout where that is another. It returns the statement's first row.
//
// It is one message, which the server carries out when it is whole, and after which it starts its timer by itself. Of
// several, as prepared statements are called by pgx, the last may get lost with the path: a session that waits for it
// holds what it was granted by those before, and none of the server's timers runs.
func (s *session) run(label string, timeout time.Duration, st statement, params ...int64) (row []string, err error) {
	sql := label
	late := st >= stTryShared && !s.sharedReady
	if late {
		sql += s.b.options.prepare(stTryShared, statements)
	}
	if s.timeout != timeout {
		sql += execute(stTimeout, timeout.Milliseconds())
	}
	row, err = s.simple(sql + execute(st, params...))
	if err == nil && row == nil {
		err = errors.New("no row in the server's answer")
		s.close()
	}
	if err != nil {
		return nil, err
	}
	s.sharedReady = s.sharedReady || late
	s.setTimeout(timeout)
	return row, nil
}

// execute is the call of a statement.
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
	rows, err := s.ask(func(f *pgproto3.Frontend) { f.SendQuery(&pgproto3.Query{String: sql}) })
	if len(rows) == 0 {
		return nil, err
	}
	return rows[0], err
}

// query sends one statement with parameters and returns its rows.
func (s *session) query(sql string, params ...string) (rows [][]string, err error) {
	return s.ask(func(f *pgproto3.Frontend) {
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

// Functions have these numbers in the catalogue of every server.
const (
	pgAdvisoryUnlock       = 2884 // pg_advisory_unlock(bigint)
	pgAdvisoryUnlockShared = 2885 // pg_advisory_unlock_shared(bigint)
)

// call has the server call a function of one number, in one message too. It spares the server to parse and plan, a
// quarter of its work.
func (s *session) call(function uint32, param int64) (row []string, err error) {
	rows, err := s.ask(func(f *pgproto3.Frontend) {
		text := strconv.AppendInt(nil, param, 10)
		f.Send(&pgproto3.FunctionCall{Function: function, Arguments: [][]byte{text}})
	})
	if len(rows) == 0 {
		rows = [][]string{{""}}
	}
	return rows[0], err
}

// ask sends one request, with the turn, and returns the rows of its last statement that returns some. A session that
// does not answer in time is given up.
func (s *session) ask(send func(f *pgproto3.Frontend)) (rows [][]string, err error) {
	rows, err = exchange(s.conn, send)
	if errors.Is(err, errUnanswered) && s.b.leases.Base().Err() == nil { // Close leaves a session with leases to its timer
		s.abort()
	}
	return rows, err
}
