package pgtable

import (
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/internal/tablesql"
)

// TestHostileSearchPath runs every statement of the store, and the check of package fence, with a search_path that
// begins with a schema that shadows the server's functions, operators, types and views. The store creates its table
// there.
func TestHostileSearchPath(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t)
	c := dialed(t, s.PostgresURL())
	exec(t, c, storetest.HostileSchema([]string{"abs", "clock_timestamp", "count", "current_setting", "date_part", "now",
		"pg_backend_pid", "set_config", "to_regclass"}))
	const path = "&search_path=hostile,pg_catalog"
	b := opened(t, tableURL(s)+path)
	exec(t, c, `INSERT INTO hostile.anylock SELECT 'old', '', 1, -(extract(epoch FROM now())-2*86400)*1000000`)
	storetest.UseAll(t, b, "key")
	list := storetest.HoldMany(t, b, 0, 5, time.Minute)
	for i, err := range b.RenewBatch(t.Context(), list) {
		if err != nil {
			t.Errorf("renewal %d of several: %v", i, err)
		}
	}
	if _, err := b.Examine(t.Context()); err != nil {
		t.Error(err)
	}
	r := req("checked", time.Minute)
	acquire(t, b, r)
	var one int
	victim := dialed(t, s.PostgresURL()+path)
	if err := victim.QueryRow(t.Context(), tablesql.CheckLease(tablesql.Postgres, "anylock").Text,
		[]byte(r.Key), []byte(r.Owner)).Scan(&one); err != nil {
		t.Errorf("check of a lease: %v", err)
	}
	storetest.Until(t, soon, "an old row is purged", func() (gone bool) {
		err := c.QueryRow(t.Context(), `SELECT count(*)=0 FROM hostile.anylock WHERE name='old'`).Scan(&gone)
		return err == nil && gone
	})
}
