package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Inspect implements [backend.Backend]. The owner comes from the label of the holder's session, which only the same
// role and members of pg_read_all_stats may see, and only where track_activities is on; otherwise, and for a lock that
// is not ours, Owner names the session. Token is 0. TTL is what is left of the session's timer, 0 where that is not
// known. If readers hold the key, the owner and the TTL are those of the reader that ends last.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	var holder backend.Holder
	err := b.call(ctx, backend.ValidateKey(key), func(ctx context.Context) (err error) {
		h := hashOf(key)
		// A label follows the grant in the same request, so it may be a moment late.
		const attempts, pause = 10, 2 * time.Millisecond
		for n := 1; ; n++ {
			var certain bool
			holder, certain, err = b.inspect(ctx, h)
			if err != nil || certain || n == attempts {
				return err
			}
			if err := kit.Sleep(ctx, pause); err != nil {
				return err
			}
		}
	})
	return holder, err
}

func (b *Backend) inspect(ctx context.Context, h hash) (holder backend.Holder, certain bool, err error) {
	rows, err := b.query(ctx, inspectSQL, h.texts()...)
	if err != nil {
		return holder, false, err
	}
	var foreign backend.Holder // of a session that does not name its owner
	waiters, readers := 0, 0
	for _, row := range rows {
		if row[0] != "t" {
			waiters++
			continue
		}
		if row[6] == "t" {
			readers++
		}
		one, known := holderOf(row, h)
		switch {
		case !known:
			foreign = one
		case !holder.Held() || endsLater(one.TTL, holder.TTL):
			holder = one
		}
	}
	if !holder.Held() {
		holder = foreign
	}
	if holder.Held() {
		holder.Waiters, holder.Shared = waiters, readers
	}
	return holder, !foreign.Held(), nil
}

// endsLater compares the TTLs of two readers. 0 stands for one that is longer than the server's timer.
func endsLater(a, b time.Duration) bool { return b != 0 && (a == 0 || a > b) }

// holderOf reads a row of inspect.sql. certain means that the session's label names the owner.
func holderOf(row []string, h hash) (holder backend.Holder, certain bool) {
	pid, query, application, state := row[1], row[2], row[3], row[4]
	owner, timeout, ok := readLabel(query, h)
	if !ok {
		return backend.Holder{Owner: fmt.Sprintf("unknown@%s:%s", application, pid)}, false
	}
	holder.Owner = owner
	if timeout > 0 && timeout < maxTimeout { // the server's longest timer may be too short for the lease
		holder.TTL = timeout
		if us, err := strconv.ParseInt(row[5], 10, 64); err == nil && strings.HasPrefix(state, "idle") {
			holder.TTL = max(timeout-time.Duration(us)*time.Microsecond, time.Microsecond)
		}
	}
	return holder, true
}
