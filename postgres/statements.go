package postgres

import (
	"embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Every statement names the schema of what it uses, because a role's search_path may put another schema before pg_catalog. An operator
// without its schema would be looked up there too.
//
//go:embed *.sql
var files embed.FS

var (
	trySQL           = sqlOf("try")
	waitSQL          = sqlOf("wait")
	timeoutSQL       = sqlOf("timeout")
	renewSQL         = sqlOf("renew")
	releaseSQL       = sqlOf("release")
	lookSQL          = sqlOf("look")
	pidSQL           = sqlOf("pid")
	setupSQL         = sqlOf("setup")
	checkIntervalSQL = sqlOf("check_interval")
	inspectSQL       = sqlOf("inspect")
	ghostSQL         = sqlOf("ghost")
	breakSQL         = sqlOf("break")
	doctorSQL        = sqlOf("doctor")
	capacitySQL      = sqlOf("capacity")
	probeSQL         = sqlOf("probe")
	beginSQL         = sqlOf("begin")
	prolongSQL       = sqlOf("prolong")
	tokenSQL         = sqlOf("token")
	tokenDurableSQL  = sqlOf("token_durable")
)

func sqlOf(name string) string {
	text, err := files.ReadFile(name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A session of ModeSession carries a mark of its connection: a setting that is set when it connects, and that every statement on it
// asks for. A pooler that gives a session to several clients, from the start or after its operator has changed its mind, is found out
// by it, before the wrong session is granted anything: who connects to a session with a mark does not get it, and a
// statement in a session with another mark, or with none, does nothing and returns no row.
const (
	markPlace = "MARK" // in SQL
	markLen   = 12     // of an owner's random digits
)

const tokenPlace = "TOKEN" // in SQL, for what gives a grant its token

func (s *session) marked(sql string) string { return strings.ReplaceAll(sql, markPlace, s.mark) }

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

// texts are the statements' SQL, and the types of their parameters.
func (o Options) texts() [statements][2]string {
	token := "pg_catalog.pg_current_xact_id()::pg_catalog.text"
	if o.Durable { // the message makes the commit wait for the write-ahead log, so that no crash gives the same token again
		token += " OPERATOR(pg_catalog.||) pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'anylock', '')::pg_catalog.text, 0)"
	}
	grant := func(sql string) [2]string {
		return [2]string{strings.ReplaceAll(sql, tokenPlace, token), "(bigint, pg_catalog.xid)"}
	}
	return [statements][2]string{grant(trySQL), grant(waitSQL), {timeoutSQL, "(pg_catalog.text)"}, {renewSQL, ""}, {releaseSQL, "(bigint)"}}
}

// name is that of a prepared statement of s, unlike any other session's: a pooler may give a session on with another client's.
func (s *session) name(st statement) string { return "anylock_" + s.mark + "_" + strconv.Itoa(int(st)) }

// setUp makes the session ours, and prepares all statements in the same request, so that a pooler cannot part them.
func (s *session) setUp() error {
	var sql strings.Builder
	sql.WriteString(s.marked(setupSQL))
	for i, text := range s.b.options.texts() {
		sql.WriteString(";\nPREPARE " + s.name(statement(i)) + " " + text[1] + " AS " + s.marked(text[0]))
	}
	row, err := s.simple(sql.String())
	switch {
	case lacking(err):
		return refused("the server lacks what session mode needs, as Postgres 14 has it: %v; open with %s=transaction", err, paramMode)
	case err != nil:
		return err
	case row == nil:
		return refused("a pooler has given a session that another client uses, or has used and not been cleared of: "+
			"open with %s=transaction, or give the pooler session pooling, with server_reset_query = DISCARD ALL in PgBouncer", paramMode)
	}
	if _, err = s.simple(s.marked(checkIntervalSQL)); s.isBroken() {
		return err
	}
	return nil // what has no such setting goes without
}

// run sends a label and a statement with its parameters as one request, with one before it that sets the session's idle timeout where
// that is another. It returns the statement's first row.
//
// It is one message, which the server carries out when it is whole, and after which it starts its timer by itself. Of several, as
// prepared statements are called by pgx, the last may get lost with the path: a session that waits for it holds what it was granted by
// those before, and none of the server's timers runs.
func (s *session) run(label string, timeout time.Duration, st statement, params ...int64) (row []string, err error) {
	sql := label
	if s.timeout != timeout {
		sql += s.execute(stTimeout, timeout.Milliseconds())
	}
	row, err = s.simple(sql + s.execute(st, params...))
	switch {
	case code(err) == codeNoStatement || err == nil && row == nil:
		s.close()
		return nil, refused("a pooler gives statements to different sessions: open with %s=transaction", paramMode)
	case err != nil:
		return nil, err
	}
	s.setTimeout(timeout)
	return row, nil
}

// execute is the call of a statement.
func (s *session) execute(st statement, params ...int64) string {
	sql := "EXECUTE " + s.name(st)
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

// pgAdvisoryUnlock is the number of pg_advisory_unlock(bigint) in the catalogue of every server.
const pgAdvisoryUnlock = 2884

// call has the server call a function of one number, in one message too. It spares the server to parse and plan, a quarter of its
// work, but not to look for the mark: no pooler may be in between.
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

// ask sends one request, with the turn, and returns the rows of its last statement that returns some. A session that does not
// answer in time is given up.
func (s *session) ask(send func(f *pgproto3.Frontend)) (rows [][]string, err error) {
	rows, err = exchange(s.conn, send)
	if errors.Is(err, errUnanswered) && s.b.leases.Base().Err() == nil { // Close leaves a session with leases to its timer
		s.abort()
	}
	return rows, err
}
