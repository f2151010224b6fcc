package mysqltable

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// A key cannot end its literal in a statement, whatever charset the URL names. In gbk, a backslash before the quote of
// this key would be the second half of a character.
func TestCharset(t *testing.T) {
	_, _, raw := start(t)
	storetest.UseAll(t, storetest.Opened[*sqltable.Backend](t, raw+"&charset=gbk"), "\xbf' OR 1=1 -- ")
}

// A server that was silent while requests waited for a connection is used again when it replies.
func TestSilentServer(t *testing.T) {
	s := servers.MariaDB(t, "--connect-timeout=3600") // a server that is really silent does not end a login either
	p := storetest.NewProxy(t, s.Addr)
	url := "mysql://root@" + p.Addr + "/" + servers.MariaDatabase + "?timeout=2s&lock_max_conns=1"
	storetest.OutlivesSilence(t, storetest.Opened[*sqltable.Backend](t, url), p)
}

// A table or connection that cannot keep locks is refused.
func TestUnfitTables(t *testing.T) {
	_, db, raw := start(t)
	const columns = `(id int, name varbinary(100) NOT NULL, owner varbinary(255), token bigint, expires bigint, `
	for i, c := range []struct {
		ddl string
		fit bool
	}{
		{columns + `PRIMARY KEY (name))`, true},
		{columns + `PRIMARY KEY (id), UNIQUE (name))`, true},
		{columns + `KEY (name))`, false},
		{columns + `PRIMARY KEY (name(50)))`, false},
		{columns + `PRIMARY KEY (name, id))`, false},
		{columns + `PRIMARY KEY (name)) ENGINE=MyISAM`, false},
	} {
		table := fmt.Sprintf("%s.unfit%d", servers.MariaDatabase, i)
		if _, err := db.ExecContext(t.Context(), `CREATE TABLE `+table+c.ddl); err != nil {
			t.Fatal(err)
		}
		b, err := openURL(t.Context(), raw+"&lock_table="+table)
		if c.fit != (err == nil) || err != nil && !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("%s: %v", c.ddl, err)
		}
		if err == nil {
			_ = b.Close()
		}
	}
	db.SetMaxOpenConns(1) // the connection without autocommit
	if _, err := db.ExecContext(t.Context(), `SET autocommit = 0`); err != nil {
		t.Fatal(err)
	}
	_, err := sqltable.New(t.Context(), db, sqltable.MySQL, nil)
	if !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("without autocommit: %v, want ErrUnsupported", err)
	}
}

// A primary that is demoted keeps its connections open and refuses their writes. They are replaced, because a new
// connection may reach the new primary.
func TestDemotedPrimary(t *testing.T) {
	_, db, raw := start(t)
	l := storetest.Acquire(t, storetest.Opened[*sqltable.Backend](t, raw), storetest.Try("k", time.Minute))
	var last int
	row := db.QueryRowContext(t.Context(), `SELECT max(id) FROM information_schema.processlist`)
	if err := row.Scan(&last); err != nil {
		t.Fatal(err)
	}
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(`CREATE TRIGGER demoted BEFORE UPDATE ON anylock FOR EACH ROW
		IF connection_id() <= %d THEN
			SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'running with the --read-only option';
		END IF`, last))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("renew: %v", err)
	}
	storetest.Release(t, l)
}
