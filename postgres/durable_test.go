package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
)

// A standby that the primary waits for, and that is away, does not keep a grant with Durable waiting with its lock and
// without a timer: a client that dies meanwhile would hold the key for as long as the standby is away.
func TestDurableWithoutStandby(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "synchronous_standby_names=absent")
	c := dialed(t, s.PostgresURL())
	const ttl = time.Second
	for _, wait := range []bool{false, true} {
		b := opened(t, s.PostgresURL()+"&lock_durable=true&timeout=1m")
		r := req("k", ttl)
		r.Wait = wait
		done := startAcquire(context.Background(), b, r)
		until(t, soon, "the server has granted the lock", func() bool { return locks(t, c) == 1 })
		unwatch(b)
		begun := time.Now()
		until(t, ttl+maxLate+time.Second, "the key of a client that does no more is free",
			func() bool { return locks(t, c) == 0 })
		t.Logf("wait %v: free after %v", wait, time.Since(begun))
		b.cut()
		<-done
	}
}
