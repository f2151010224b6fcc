package mysqltable

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// A batch locks the rows of its own leases only. Another batch would skip all other rows that it locked, and their
// renewal would fail. The batches are large parts of the table, so that reading all of it would be cheap.
func TestBatchesLockOwnRows(t *testing.T) {
	for _, n := range []int{10, 700} { // leases of each batch
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			_, _, raw := start(t)
			b := storetest.Opened[*sqltable.Backend](t, raw)
			var wg sync.WaitGroup
			for i := range 2 {
				batch := storetest.HoldMany(t, b, i*n, n, time.Minute)
				wg.Go(func() { renewFor(t, b, batch, 2*time.Second) })
			}
			wg.Wait()
		})
	}
}

// renewFor renews the leases of batch, again and again, for d.
func renewFor(t *testing.T, b *sqltable.Backend, batch []backend.Renewal, d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d && !t.Failed(); {
		for i, err := range b.RenewBatch(t.Context(), batch) {
			if err != nil {
				t.Errorf("lease %d of %d: %v", i, len(batch), err)
				return
			}
		}
	}
}
