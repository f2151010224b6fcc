package mysqltable

import (
	"testing"

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
