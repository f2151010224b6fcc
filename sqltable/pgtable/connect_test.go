package pgtable

import (
	"strings"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	url := strings.Replace(tableURL(s), s.Addr, p.Addr, 1) + "&lock_table=silent_server&lock_max_conns=1&timeout=2s"
	storetest.OutlivesSilence(t, opened(t, url), p)
}
