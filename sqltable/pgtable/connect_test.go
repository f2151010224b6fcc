package pgtable

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/internal/storetest"
)

// A host that accepts connections and never replies does not use up the time of the next host, as after a failover.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url := strings.Replace(tableURL(s), s.Addr, silent.Addr().String()+","+s.Addr, 1)
	b := opened(t, url+"&target_session_attrs=primary&lock_table=silent_host"+patient)
	release(t, acquire(t, b, req("k", time.Minute)))
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	url := strings.Replace(tableURL(s), s.Addr, p.Addr, 1) + "&lock_table=silent_server&lock_max_conns=1&timeout=2s"
	storetest.OutlivesSilence(t, opened(t, url), p)
}
