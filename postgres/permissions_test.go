package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

// The role that docs/stores/postgres.md creates can do everything in each mode. Without the page's GRANT CONNECT, it
// cannot connect.
func TestPermissionsOfThePage(t *testing.T) {
	t.Parallel()
	s := altered(t)
	c := dialed(t, s.PostgresURL())
	url := strings.Replace(s.PostgresURL(), "postgres@", "anylock:PASSWORD@", 1)
	var connects string
	for _, line := range storetest.Permissions(t, "postgres") {
		line = strings.ReplaceAll(line, "DATABASE app ", "DATABASE "+s.name+" ")
		if strings.HasPrefix(line, "GRANT CONNECT ") {
			connects = line
			continue
		}
		if _, err := c.Exec(t.Context(), line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if strings.HasPrefix(line, "CREATE ROLE ") {
			t.Cleanup(func() {
				if _, err := c.Exec(context.Background(), "DROP OWNED BY anylock; DROP ROLE anylock"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if b, err := openURL(t.Context(), url); err == nil ||
		!strings.Contains(err.Error(), "permission denied for database") {
		t.Errorf("without the right to connect: %v", err)
		if err == nil {
			_ = b.Close()
		}
	}
	if _, err := c.Exec(t.Context(), connects); err != nil {
		t.Fatalf("%s: %v", connects, err)
	}
	for name, params := range map[string]string{
		"session": "", "durable": "&lock_durable=true",
	} {
		t.Run(name, func(t *testing.T) { storetest.UseAll(t, opened(t, url+params), name) })
	}
}
