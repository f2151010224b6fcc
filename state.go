package lock

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/alarm"
)

// This file declares the state of a Locker: its gates, their holders, and how these refer to each other. The other
// files have the methods. The files form a stack: none refers to a file that refers back to it, which a test checks.
// From the bottom: state · options, renew · gate · tenure · handoff · enter · context · lease · acquire ·
// shutdown · lock · ops, config.

const (
	handoffBits = 8
	maxHandoff  = 1<<handoffBits - 1

	forever = time.Duration(math.MaxInt64)
)

// A Locker hands out leases on the keys of one store. Create it with Open or New: the methods of a zero Locker return
// ErrInvalid.
type Locker struct {
	backend    backend.Backend
	name       string // of the store, for errors and logs
	guarantees Guarantees
	defaults   settings
	renewals   *renewer

	mu     sync.Mutex
	gates  map[string]*gate
	idle   *gate // the gate that was left last, empty: its key is often requested again at once
	active int   // number of keys that are held or requested; a key with shared leases counts once for each lease

	closed   atomic.Bool     // set by Close
	stopping <-chan struct{} // closed by stop, in Shutdown or Close, under mu: nothing new is granted
	stop     func()
	onStop   func(f func()) (cancel func() bool) // calls f on a goroutine of its own once stopping is closed
	drained  chan struct{}                       // closed, under mu, once active is 0 after stopping, or by Close
}

type settings struct {
	ttl         time.Duration
	noRenewal   bool // no automatic renewal
	maxHold     time.Duration
	minHold     time.Duration
	wait        time.Duration // forever without a limit
	reentrant   bool
	shared      bool
	exclusive   bool   // shared is refused
	owner       string // empty for a random owner
	randomOwner bool   // owner is refused

	handoff   int
	prefix    string
	label     string // of owners; empty for the host and process
	tokenBase uint64 // added to the store's numbers
	require   []Need
	logger    *slog.Logger
	tracer    Tracer

	err error // of an option with an invalid value
}

// A gate lets one goroutine of the process at a time contend for, or hold, one key; the others queue behind it, first
// come first served. A gate exists while somebody is inside, or while it is Locker.idle. Locker.mu guards its queue.
//
// A lease that is shared, resumed, or acquired with WithOwner has a private gate, where nobody queues. A shared request
// must not wait for local requests that it does not conflict with. A lease that is resumed or acquired with WithOwner
// may end in another process, so local requests wait for it at the store.
type gate struct {
	key      string
	shared   bool                   // the mode of its requests
	private  bool                   // for one lease; not in Locker.gates
	inside   atomic.Pointer[tenure] // the holder of the key; nil while the goroutine inside still contends for it
	waiters  list.List              // of *waiter
	checking bool                   // an inspection for a waiter is under way
}

type waiter struct {
	turn  chan *tenure // receives a live lease handed on, or nil to contend; has a buffer of 1, so sending never blocks
	terms *settings
	place *list.Element // in gate.waiters
	busy  error         // the latest report, before or during the wait, that the key is busy
}

// A grant is what the process knows about a store's lease from the start. It does not change once the lease is held.
type grant struct {
	locker  *Locker
	gate    *gate
	lease   backend.Lease
	owner   string
	granted time.Time
	ended   chan struct{} // closed when the process gives the lease up; nil if nothing waits for that
}

// A tenure is the time for which one local holder has a lease of the store. The handles of its re-entries share it. A
// hand-off moves the lease to another tenure.
type tenure struct {
	grant
	handoffs     uint8         // of the lease, before this tenure began
	token        uint64        // of the holder
	startAge     time.Duration // age of the lease when the tenure began
	minHold      time.Duration
	confirmedAge time.Duration // age of the lease when the store last confirmed it for a hand-off

	mu          sync.Mutex
	phase       phase
	releasing   bool                       // a release is under way
	next        *tenure                    // the tenure to which the lease was handed on
	handles     int                        // number of handles not released
	cause       error                      // ErrLost or ErrClosed if the lease was lost while it was held
	end         time.Time                  // the deadline when the tenure ended
	lost        chan struct{}              // created on first use
	releaseDone sync.Cond                  // signals that releasing has become false
	derived     map[*leaseContext]struct{} // the contexts that end with the tenure

	ttl    time.Duration // the TTL to renew to
	maxAge time.Duration // age of the lease at its maximum hold: renew no further

	// pendingRenewals counts the requests, of the renewer and of Lease.Renew, that may still reach the store: those under
	// way, and those that got no answer.
	pendingRenewals atomic.Int32

	// Changed under renewer.mu.
	renewed   atomic.Bool // the renewer renews the lease
	renewal   alarm.Entry[*tenure]
	silentAge time.Duration // age of the lease when the store stopped answering renewals; 0 if it answers

	first Lease // the first handle, not of a re-entry; stored here so that an acquisition makes one allocation
}

type phase int8

const (
	unheld   phase = iota // from the grant or hand-off until the holder has the lease
	held                  // until the last handle's release, or the loss
	released              // the holder has given the lease up, to the next tenure or the store
	lost                  // the store's lease has ended
)

// A Lease is the right to a key until a deadline. Its methods are safe for concurrent use.
type Lease struct {
	tenure *tenure

	// Guarded by tenure.mu.
	released bool
	err      error // of the last Release
}

// A leaseContext is one context that Lease.Context has derived.
type leaseContext struct {
	lease  *Lease
	outer  *leaseContext // of the nearest such context above
	cancel context.CancelCauseFunc
	detach func() bool // stops watching the parent
}

// A renewer renews the leases of one Locker. It has one clock, and runs a few goroutines only while requests are under
// way.
type renewer struct {
	locker     *Locker
	request    func(context.Context, []backend.Renewal) []error // renews up to size leases
	size       int
	maxWorkers int
	cancel     context.CancelFunc // ends the requests under way
	workers    sync.WaitGroup

	mu      sync.Mutex
	clock   alarm.Clock[*tenure]
	working int
	group   time.Time // when the latest group of leases is to be renewed
	joined  int       // number of leases in that group
}

// lossReason returns why a lease has ended without a release: ErrClosed or ErrLost.
func (l *Locker) lossReason() error {
	if l.closed.Load() {
		return ErrClosed
	}
	return ErrLost
}

// endErrLocked returns ErrReleased, ErrLost or ErrClosed, or nil while the lease is valid.
func (l *Lease) endErrLocked() error {
	t := l.tenure
	switch {
	case l.released && isLoss(l.err):
		return l.err
	case l.released:
		return ErrReleased
	case t.cause == nil && time.Now().Before(t.lease.Deadline()):
		return nil
	}
	return cmp.Or(t.cause, t.locker.lossReason())
}

// error wraps err in an Error. If err contains an Error already, that is about another lock: the cause of a context's
// end.
func (l *Locker) error(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Backend: l.name, Key: key, Err: err}
}

// age returns the time since the store's grant.
func (g *grant) age() time.Duration { return time.Since(g.granted) }

func (t *tenure) is(p phase) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase == p
}

// warn logs a warning about the lease.
func (g *grant) warn(msg string, args ...any) {
	about := []any{"key", g.gate.key, "backend", g.locker.name, "owner", g.owner}
	g.locker.defaults.logger.Warn(msg, append(about, args...)...)
}

// error wraps err.
func (g *grant) error(op string, err error) error { return g.locker.error(op, g.gate.key, err) }

// checkOpened returns an error if the Locker was created by neither Open nor New.
func (l *Locker) checkOpened() error {
	if l.backend == nil {
		return fmt.Errorf("%w: the Locker was made without Open or New", ErrInvalid)
	}
	return nil
}

// withToken returns h, with the store's number converted to the token that a Lease has.
func (l *Locker) withToken(h Holder) Holder {
	// 0 if the sum is too large, because no lease has such a token.
	number, _ := driver.AddTokenBase(h.Token, l.defaults.tokenBase)
	h.Token = number << handoffBits
	return h
}

func (l *Locker) fullKey(key string) (string, error) {
	full := l.defaults.prefix + key
	// The prefix alone is not a key.
	return full, cmp.Or(l.checkOpened(), backend.ValidateKey(key), backend.ValidateKey(full))
}

// timeToDeadline returns how far away the deadline of a lease of ttl is at first, not counting the margin.
func (l *Locker) timeToDeadline(ttl time.Duration) time.Duration {
	return min(l.guarantees.Round(ttl), cmp.Or(l.guarantees.MaxSilence, forever))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
