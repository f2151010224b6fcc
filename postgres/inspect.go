package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Inspect implements [backend.Backend]. It reads the owner from the label of the holder's session. The label is visible
// only to the same role and to members of pg_read_all_stats, and only if track_activities is on. If the label is not
// visible, or another tool holds the lock, Owner names the session. Token is 0. TTL is the remaining time of the
// session's timer, or 0 if unknown. If readers hold the key, Owner and TTL are those of the reader that ends last.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	var holder backend.Holder
	err := b.call(ctx, backend.ValidateKey(key), func(ctx context.Context) (err error) {
		h := hashOf(key)
		for range 10 { // a session may change its label and its lock while the server reads both
			var certain bool
			if holder, certain, err = b.inspect(ctx, h); err != nil || certain {
				break
			}
			_ = kit.Sleep(ctx, 2*time.Millisecond)
		}
		return err
	})
	return holder, err
}

func (b *Backend) inspect(ctx context.Context, h hash) (holder backend.Holder, certain bool, err error) {
	rows, err := b.query(ctx, inspectSQL, h.text())
	if err != nil {
		return holder, false, err
	}
	var foreign backend.Holder // a session whose label does not name the owner
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
		case !holder.Held() || one.TTL > holder.TTL:
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

// holderOf reads a row of inspect.sql. certain reports whether the session's label names the owner.
func holderOf(row []string, h hash) (holder backend.Holder, certain bool) {
	pid, query, application, state := row[1], row[2], row[3], row[4]
	owner, timeout, ok := readLabel(query, h)
	if !ok {
		return backend.Holder{Owner: fmt.Sprintf("unknown@%s:%s", application, pid)}, false
	}
	if us, err := strconv.ParseInt(row[5], 10, 64); err == nil && state == "idle" {
		timeout = max(timeout-time.Duration(us)*time.Microsecond, time.Microsecond)
	}
	return backend.Holder{Owner: owner, TTL: timeout}, true
}
