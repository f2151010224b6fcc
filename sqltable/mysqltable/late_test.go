package mysqltable

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// If the reply to a grant is lost and the server's clock steps back, the repeated statement changes nothing. The owner
// still has the lease.
func TestRepeatedGrantChangesNothing(t *testing.T) {
	_, db, _ := start(t)
	db.SetMaxOpenConns(1) // the session whose clock stands still
	b, err := sqltable.New(t.Context(), db, sqltable.MySQL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if _, err := db.ExecContext(t.Context(), `SET timestamp = unix_timestamp()`); err != nil {
		t.Fatal(err)
	}
	r := storetest.Try("k", time.Minute)
	first := storetest.Acquire(t, b, r)
	if again := storetest.Acquire(t, b, r); again.Token() != first.Token() {
		t.Errorf("token %d of the first grant, %d of its repetition", first.Token(), again.Token())
	}
	r.Owner = backend.NewOwner()
	if _, err := b.Acquire(t.Context(), r); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("another owner: %v, want ErrHeld", err)
	}
	storetest.Release(t, first)
}

// A renewal whose statement had to wait in the server, for a row or for a backup, does not shorten a lease that a later
// renewal has extended meanwhile, and does not renew a lease that has ended meanwhile.
func TestRenewalThatWaited(t *testing.T) {
	_, db, raw := start(t)
	db.SetMaxOpenConns(1) // a session whose statements seem to have begun earlier
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	b := storetest.Opened[*sqltable.Backend](t, raw)
	late, err := sqltable.New(t.Context(), db, sqltable.MySQL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = late.Close() })
	const ttl = time.Minute
	for _, n := range []int{1, 3} { // a statement for one lease, and one for several
		var held []backend.Lease
		var list []backend.Renewal // of the same leases, by the late statement
		for i := range n {
			r := storetest.Try(fmt.Sprint(i, " of ", n), ttl)
			held = append(held, storetest.Acquire(t, b, r))
			l, err := late.Resume(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, backend.Renewal{Lease: l, TTL: ttl})
		}
		exec(`SET timestamp = unix_timestamp() - 5`)
		for _, err := range late.RenewBatch(t.Context(), list) {
			if err != nil {
				t.Errorf("a late renewal of %d leases: %v", n, err)
			}
		}
		for i, l := range held {
			h, err := b.Inspect(t.Context(), fmt.Sprint(i, " of ", n))
			if holder := time.Until(l.Deadline()); err != nil || holder > h.TTL {
				t.Errorf("%d of %d: the lease lasts for %v for its holder, and for %v in the database (%v)", i, n, holder, h.TTL,
					err)
			}
		}
		exec(`UPDATE anylock SET expires = 1000000 * (unix_timestamp() + 4)`) // a second ago
		for _, err := range late.RenewBatch(t.Context(), list) {
			if err == nil {
				t.Errorf("a late renewal of %d leases that have ended: nil", n)
			}
		}
		for i := range n {
			if h, err := b.Inspect(t.Context(), fmt.Sprint(i, " of ", n)); err != nil || h.Held() {
				t.Errorf("%d of %d: the lease has ended, and lasts for %v after the late renewal (%v)", i, n, h.TTL, err)
			}
		}
		exec(`SET timestamp = DEFAULT`)
	}
}
