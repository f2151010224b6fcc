package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

// Collection is what etcd is used for in a wrong way.
var Collection = specimens.Collection{
	Store:     "etcd",
	Twin:      Open,
	Specimens: specimens.Join(taking, leasing, leaving),
}

var taking = []specimens.Specimen{
	{
		Name:  "unconditional-put",
		Title: "Put without a condition",
		Story: "Lock is a Put of the key with a lease, and Unlock is a Delete. The lease makes this look like a " +
			"lock, but a Put always succeeds. Every client gets the lock, and the lease of the last client decides " +
			"when the key expires.",
		See:    "codenbase/coden, etcd locker",
		Right:  "Put in a transaction that compares the name's create revision with 0.",
		Sin:    []string{"lookAway", "takeAnyway"},
		Virtue: []string{"ask", "takeIfFree"},
		Open:   wrong(func(w *steps) { w.look, w.take = lookAway, takeAnyway }),
		Kills:  []specimens.Kill{{Check: "ClientsShareStore", Says: "two clients were granted the same key"}},
	},
	{
		Name:  "get-then-put",
		Title: "Get, then Put if the key is missing",
		Story: "The client reads first: if Get finds nothing, it calls Put. Two clients that read at the same " +
			"moment both find nothing, and both write. A test with one client after the other passes; cron jobs on " +
			"all hosts, which start on the full minute, overlap.",
		See:    "codenbase/coden, etcd locker, with the check that its users add",
		Right:  "Compare and put in one transaction, so that nothing can happen in between.",
		Sin:    []string{"takeAnyway"},
		Virtue: []string{"takeIfFree"},
		Open:   wrong(func(w *steps) { w.take = takeAnyway }),
		Kills:  []specimens.Kill{{Check: "OneAttemptWins", Says: "attempts made at the same moment were granted"}},
	},
	{
		Name:  "error-means-not-acquired",
		Title: "An error counts as a refusal",
		Story: "The transaction's context ends, or its connection breaks, and Lock returns the error as if the " +
			"lock was not acquired. But the request may have arrived. concurrency.Mutex returned an error and left " +
			"its key behind in 10 of 20 measured cases, and its session, which lives on, keeps that key for ever.",
		See: "etcd client/v3/concurrency, Mutex.tryAcquire; measured for anylock's notes",
		Right: "An error after sending means unknown: remove by owner, until the servers confirm that the key " +
			"is not there.",
		Sin:    []string{"shrug"},
		Virtue: []string{"cleanUp"},
		Open:   wrong(func(w *steps) { w.abandon = shrug }),
		Kills: []specimens.Kill{{Check: "CancelRacesAttempt",
			Says: "after a cancelled attempt: the key did not become free"}},
	},
	{
		Name:  "watch-from-now",
		Title: "A watch that starts some time after the read",
		Story: "A waiter reads the key, finds that it is taken, and watches it. The watch begins when it reaches " +
			"the server. If the key was deleted in between, no event arrives, and the waiter waits on a free key " +
			"until the next holder acquires and releases it.",
		See: "etcd manual, “Interacting with etcd”, watch; etcd #17612 and #19179 for servers that do the same",
		Right: "Watch from the revision after the one at which the key was read, and read again after a while " +
			"in any case.",
		Sin:    []string{"watchFromNow"},
		Virtue: []string{"watch"},
		Open:   wrong(func(w *steps) { w.await = watchFromNow }),
		Kills:  []specimens.Kill{{Check: "NoLostWakeUp", Says: "a waiter has not been granted the free key"}},
	},
}

var leasing = []specimens.Specimen{
	{
		Name:  "session-is-the-owner",
		Title: "The session is the owner",
		Story: "All locks of a process use one session's lease, and the name in the queue is the number of that " +
			"lease. So the lock belongs to the session: a second caller with the same session already holds it. " +
			"concurrency.NewMutex(session, name) works this way. Two requests served by one process both get the " +
			"lock, and the first Unlock also releases the other's lock.",
		See:    "etcd client/v3/concurrency, Mutex; measured for anylock's notes",
		Right:  "Each acquisition is a separate owner.",
		Sin:    []string{"lookBySession", "takeBySession"},
		Virtue: []string{"ask", "takeIfFree"},
		Open:   wrong(func(w *steps) { w.look, w.take = lookBySession, takeBySession }),
		Kills:  []specimens.Kill{{Check: "OwnersOfOneClientExclude", Says: "a second owner was granted the key"}},
	},
	{
		Name:  "lease-ends-with-context",
		Title: "A lease bound to the caller's context",
		Story: "The session is created with the context passed to Lock, and closed when the context ends. But " +
			"such a context often covers only the wait: ctx, cancel := WithTimeout(…); defer cancel(); return " +
			"Lock(ctx). The lock ends when Lock returns, or one TTL later if a keep-alive is bound to that context. " +
			"Nobody is notified.",
		See:    "ubgo/lock, etcd; concurrency.WithContext",
		Right:  "The context ends the wait. The lease ends by Release or its TTL.",
		Sin:    []string{"revokeWithContext"},
		Virtue: []string{"leaveAlone"},
		Open:   wrong(func(w *steps) { w.granted = revokeWithContext }),
		Kills:  []specimens.Kill{{Check: "CancelledAfterGrant", Says: "a second owner was granted the key"}},
	},
	{
		Name:  "keepalive-revives",
		Title: "A keep-alive that reacquires the lock",
		Story: "When a keep-alive gets the error “requested lease not found”, it creates a new lease and puts " +
			"the key under it, to be robust. But the lock was free in the meantime, and another client may have held " +
			"it, or may hold it now: the Put takes the lock from that client. The first holder continues as if its " +
			"lease had never ended.",
		See:    "etcd client/v3, KeepAlive; the reconnect loops that are written around it",
		Right:  "A lease that was not found is lost. Notify the holder.",
		Sin:    []string{"keepAliveOrPut"},
		Virtue: []string{"keepAlive"},
		Open:   wrong(func(w *steps) { w.renew = keepAliveOrPut }),
		Kills: []specimens.Kill{
			{Check: "EvictedRenewRevivesNothing", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
			{Check: "EvictedRenewSparesNewHolder", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "ttl-cut-to-seconds",
		Title: "A TTL truncated to whole seconds",
		Story: "etcd's TTL is in whole seconds, so the duration is truncated: int64(ttl.Seconds()). 2.9 seconds " +
			"become 2, and the lock expires almost a third early. Below two seconds nobody notices, because servers " +
			"grant no shorter TTL; half a second becomes 0, which is refused.",
		See:    "etcd client/v3, Lease.Grant",
		Right:  "Round up: a TTL is a minimum.",
		Sin:    []string{"cutOff"},
		Virtue: []string{"roundUp"},
		Open:   wrong(func(w *steps) { w.seconds = cutOff }),
		Kills:  []specimens.Kill{{Check: "TTLNotEarly", Says: "granted again after 2."}},
	},
}

var leaving = []specimens.Specimen{
	{
		Name:  "delete-without-comparing",
		Title: "Delete without a comparison",
		Story: "Unlock deletes the key. If the lease has already expired, for example because its holder was " +
			"paused, the key belongs to another client. The late Unlock deletes that client's lock, and a third " +
			"client gets in.",
		See: "codenbase/coden, etcd locker, Unlock",
		Right: "Delete in a transaction that compares the create revision, or revoke the lease to which the key " +
			"is attached.",
		Sin:    []string{"removeByName"},
		Virtue: []string{"removeOwn"},
		Open:   wrong(func(w *steps) { w.remove = removeByName }),
		Kills: []specimens.Kill{{Check: "EvictedReleaseSparesNewHolder",
			Says: "Release of a lease that the store had dropped: <nil>, want ErrLost"}},
	},
}

// wrong opens the store with some steps done in another way.
func wrong(change func(*steps)) specimens.Open {
	return func(_ context.Context, addrs ...string) (backend.Backend, error) {
		how := right()
		change(&how)
		return open(how, addrs)
	}
}

// lookAway asks nobody.
func lookAway(context.Context, *store, string) (look, error) { return look{}, nil }

// takeAnyway puts the name, whoever has it.
func takeAnyway(ctx context.Context, s *store, h *hold) (look, error) {
	resp, err := s.client.Put(ctx, h.name, h.owner, clientv3.WithLease(h.lease))
	if err != nil {
		return look{}, err
	}
	h.revision = resp.Header.Revision
	return look{}, nil
}

// lookBySession finds a name free that the session has.
func lookBySession(ctx context.Context, s *store, name string) (look, error) {
	seen, err := ask(ctx, s, name)
	if seen.kv != nil && seen.kv.Lease == s.session.Load() {
		seen.kv = nil
	}
	return seen, err
}

// takeBySession puts the name under the session's lease. If it is there under that already, it is taken.
func takeBySession(ctx context.Context, s *store, h *hold) (look, error) {
	if !s.session.CompareAndSwap(0, int64(h.lease)) {
		s.revoke(ctx, h.lease)
		h.lease = clientv3.LeaseID(s.session.Load())
	}
	seen, err := takeIfFree(ctx, s, h)
	if seen.kv != nil && seen.kv.Lease == int64(h.lease) {
		h.revision = seen.kv.CreateRevision
		return look{}, nil
	}
	return seen, err
}

// shrug leaves behind what a request without an answer may have done.
func shrug(*store, backend.Request, time.Duration) {}

// watchFromNow sees what is deleted from when the watch has reached the server.
func watchFromNow(ctx context.Context, s *store, name string, _ int64) { s.untilDeleted(ctx, name) }

// revokeWithContext ends the lease when the context does that Acquire was called with.
func revokeWithContext(ctx context.Context, s *store, h *hold) {
	context.AfterFunc(ctx, func() { s.revoke(ctx, h.lease) })
}

// keepAliveOrPut gets a new lease for a name whose lease has ended.
func keepAliveOrPut(ctx context.Context, s *store, h *hold, ttl time.Duration) (time.Duration, error) {
	granted, err := s.client.KeepAliveOnce(ctx, h.lease)
	if err == nil {
		return time.Duration(granted.TTL) * time.Second, nil
	}
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return 0, err
	}
	if err := s.grant(ctx, h, ttl); err != nil {
		return 0, err
	}
	_, err = takeAnyway(ctx, s, h)
	return h.ttl, err
}

// cutOff is a TTL in seconds, no longer.
func cutOff(ttl time.Duration) int64 { return int64(ttl.Seconds()) }

// removeByName deletes the name, whoever has it.
func removeByName(ctx context.Context, s *store, h *hold) error {
	_, err := s.client.Delete(ctx, h.name)
	return err
}
