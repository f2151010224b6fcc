package postgres

import (
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestDoctorClock(t *testing.T) {
	storetest.Long(t, "a server of its own whose clock is set")
	t.Parallel()
	s := servers.Postgres(t)
	b := opened(t, s.PostgresURL())
	clockOf(t, s)(-time.Hour)
	storetest.Finds(t, b, "clock-skew")
}
