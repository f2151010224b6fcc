package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
)

// With Durable, a grant does not wait for an absent synchronous standby. Otherwise the session would hold the lock
// while it waits, without a timer: if its client died, the key would stay held until the standby returned.
func TestDurableWithoutStandby(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "synchronous_standby_names=absent")
	c := dialed(t, s.PostgresURL())
	const ttl = 3 * time.Second
	for _, wait := range []bool{false, true} {
		b := opened(t, s.PostgresURL()+"&lock_durable=true&timeout=1m")
		r := req("k", ttl)
		r.Wait = wait
		done := startAcquire(context.Background(), b, r)
		until(t, soon, "the server has granted the lock", func() bool { return locks(t, c) == 1 })
		unwatch(b)
		begun := time.Now()
		until(t, ttl+maxLate+soon, "the key of a client that does no more is free",
			func() bool { return locks(t, c) == 0 })
		t.Logf("wait %v: free after %v", wait, time.Since(begun))
		b.cut()
		<-done
	}
}
