package conformance_test

import (
	"context"
	"time"
)

// calledAtCloseMutants are bugs of calls that are under way at Close, and of a Close that must dial.
var calledAtCloseMutants = []mutant{
	{inspectOutlivesClose, "CloseEndsCallsUnderWay"},
	{renewOutlivesClose, "CloseEndsCallsUnderWay"},
	{"Close waits for a dial", "PartitionedCloseIsBounded"},
}

const (
	inspectOutlivesClose = "Inspect is repeated until its context ends, even after Close"
	renewOutlivesClose   = "Renew under way at Close waits for its context"
)

// renewPastClose is Renew with the bug renewOutlivesClose.
func (b *bent) renewPastClose(ctx context.Context, ttl time.Duration) error {
	err := b.Life.Renew(ctx, ttl)
	if err != nil && b.c.leases.Closed() {
		select {
		case <-ctx.Done():
		case <-b.c.server.stop:
		}
	}
	return err
}

// waitsForDial waits until the client can dial, or for a time limit, as a bug.
func (c *client) waitsForDial() {
	const limit = 30 * time.Second
	if c.wire == nil || !c.is("Close waits for a dial") {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c.wire.answers(ctx)
}
