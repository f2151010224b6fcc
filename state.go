package lock

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/alarm"
)

// The state of a Locker: its gates, what holds them, and how these refer to each other. The files above this one have
// the methods. Files refer to files below them only, which a test checks: state · options, renew · gate · tenure ·
// handoff · enter · context · lease · acquire · shutdown · lock · ops, config.

const (
	handoffBits = 8
	maxHandoff  = 1<<handoffBits - 1
)

// A Locker hands out leases on the keys of one store. Create it with Open or New: the methods of a zero Locker return
// ErrInvalid.
type Locker struct {
	backend    backend.Backend
	name       string // of the store, for errors and logs
	guarantees Guarantees
	defaults   settings
	renewals   *renewer
	traces     traces

	mu      sync.Mutex
	gates   map[string]*gate
	private map[*gate]struct{} // gates of one lease each: shared, resumed, or with an owner of its own
	idle    *gate              // the one that was left last, with nobody inside: its key is often wanted again at once

	// Closed under mu.
	stopping chan struct{} // by Shutdown, or Close: nothing new is granted
	drained  chan struct{} // when, after that, nobody holds a key or asks for one
	done     chan struct{} // by Close

	background sync.WaitGroup // hand-backs under way for callers who have gone
}

type settings struct {
	ttl       time.Duration
	manual    bool // no automatic renewal
	maxHold   time.Duration
	minHold   time.Duration
	wait      time.Duration
	limited   bool // wait is set
	reentrant bool
	shared    bool
	owner     string // empty for a random one

	handoff int
	prefix  string
	label   string // of owners; empty for the host and process
	base    uint64 // added to the store's numbers
	require []Need
	logger  *slog.Logger
	tracer  Tracer

	err error // of an option's own value
}

// A gate lets one goroutine of the process at a time contend for, or hold, one key; the others queue behind it, first
// come first served. It exists while someone is inside, or is Locker.idle. Locker.mu guards its queue.
//
// A shared lease, and one with an owner of its own or resumed, has a private gate, where nobody queues. A shared request
// must not wait for local requests that it does not conflict with. The others may end in another process, so that local
// requests wait for them at the store.
type gate struct {
	key      string
	shared   bool                   // the mode of its requests
	inside   atomic.Pointer[tenure] // who holds the key, nil while the one inside still contends for it
	waiters  *list.List             // of *waiter; nil until the first comes
	busy     error                  // what the store has said last of the key being busy
	busyAt   time.Time              // when it did
	checking bool                   // an inspection for a waiter is under way
	endWait  context.CancelFunc     // of the wait at the store of the one inside, nil if there is none
}

type waiter struct {
	turn  chan *tenure // a live lease handed on, or nil to contend; takes one, without blocking the giver
	terms *settings
	since time.Time     // when it began to wait
	place *list.Element // in gate.waiters
}

// A grant is what the process knows of a lease of the store from the start. It does not change.
type grant struct {
	locker  *Locker
	gate    *gate
	lease   backend.Lease
	owner   string
	named   bool // the caller chose owner: the lease is not handed on
	resumed bool // by Resume
	granted time.Time
	ended   chan struct{} // closed when the process gives the lease up; nil where nothing waits for that
}

// A tenure is one local holder's time on a lease of the store. The handles of its re-entries share it. A hand-off moves
// the lease to another tenure.
type tenure struct {
	grant
	handoffs uint8         // of the lease, before this tenure
	token    uint64        // of the holder
	since    time.Duration // of the lease's age
	minHold  time.Duration
	replied  time.Duration // of the lease's age when the store confirmed it for a hand-off

	mu      sync.Mutex
	phase   phase
	next    *tenure                    // to which the lease was handed on
	handles int                        // not released
	cause   error                      // ErrLost or ErrClosed if the lease was lost while it was held
	end     time.Time                  // the deadline when the tenure ended
	lost    chan struct{}              // nil until it is asked for
	derived map[*leaseContext]struct{} // the contexts that end with it

	ttl         time.Duration // to renew to
	until       time.Duration // of the lease's age: renew no further; 0 means for ever
	renewTurn   chan struct{} // holds one value while a Lease.Renew is under way; nil until the first
	cancelRenew func()        // ends the last Lease.Renew

	releasing bool       // a release is under way
	released  *sync.Cond // signals the end of the release; nil until somebody waits for it

	renewals atomic.Int32 // requests under way, of the renewer and of Lease.Renew

	// Guarded by renewer.mu.
	renewal   alarm.Entry[*tenure]
	unrenewed bool          // the renewer leaves the lease alone
	silent    time.Duration // of the lease's age when the store stopped answering renewals; 0 if it answers

	first Lease // the first handle: here, so that an acquisition makes one piece of memory
}

type phase int8

const (
	unheld   phase = iota // from the grant or hand-off until the holder has the lease
	held                  // until the last handle's release, or the loss
	released              // the lease is given up: to the next tenure, or to the store
	lost                  // the store's lease has ended
)

// A Lease is the right to a key until a deadline. Its methods are safe for concurrent use.
type Lease struct {
	tenure    *tenure
	reentered bool // does not change

	// Guarded by tenure.mu.
	released bool
	err      error // of the last Release
}

// A leaseContext is one context that Lease.Context has derived.
type leaseContext struct {
	lease  *Lease
	cancel context.CancelCauseFunc
	detach func() bool // stops watching the parent
}

// A renewer renews the leases of one Locker: one clock, and a few goroutines only while requests are under
// way.
type renewer struct {
	locker  *Locker
	batch   backend.BatchRenewer // nil where the store has none
	size    int                  // leases that a worker takes at once
	most    int                  // workers at once
	cancel  context.CancelFunc   // ends the requests under way
	workers sync.WaitGroup

	mu      sync.Mutex
	clock   alarm.Clock[*tenure]
	working int
	closed  bool
	group   time.Time // when those are renewed that were put in last
	joined  int       // how many they are
}

// endedErr is why a lease has ended without a release.
func (l *Locker) endedErr() error {
	if isClosed(l.done) {
		return ErrClosed
	}
	return ErrLost
}

// error wraps err. An Error inside it can only be about another lock: the cause of a context's end.
func (l *Locker) error(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Backend: l.name, Key: key, Err: err}
}

// age is the time since the store's grant.
func (g *grant) age() time.Duration { return time.Since(g.granted) }

// error wraps err.
func (g *grant) error(op string, err error) error { return g.locker.error(op, g.gate.key, err) }

// unopened is the error of a Locker that neither Open nor New has made.
func (l *Locker) unopened() error {
	if l.backend == nil {
		return fmt.Errorf("%w: the Locker was made without Open or New", ErrInvalid)
	}
	return nil
}

// withToken is a holder as the store names it, with the token that a holder of this package has.
func (l *Locker) withToken(h Holder) Holder {
	number, err := driver.AddTokenBase(h.Token, l.defaults.base)
	if err != nil {
		number = 0 // nobody can have such a one
	}
	h.Token = number << handoffBits
	return h
}

func (l *Locker) fullKey(key string) (string, error) {
	if err := l.unopened(); err != nil {
		return "", err
	}
	if key == "" {
		return "", backend.ValidateKey(key) // a prefix does not make it a key
	}
	full := key
	if l.defaults.prefix != "" {
		full = l.defaults.prefix + key
	}
	return full, backend.ValidateKey(full)
}

// effective is how far away the deadline of a lease of ttl is at first.
func (l *Locker) effective(ttl time.Duration) time.Duration {
	ttl = l.guarantees.Round(ttl)
	if most := l.guarantees.MaxSilence; most > 0 {
		return min(ttl, most)
	}
	return ttl
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
