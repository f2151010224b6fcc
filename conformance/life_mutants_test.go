package conformance_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// The bugs of an oddLife.
const (
	answerLoses      = "answer to a renewal that met the release closes Lost at its deadline"
	batchTimerLoses  = "timer that a batch has set closes Lost after the release"
	waitTimerLoses   = "timer of a lease that was waited for closes Lost after the release"
	resumeTimerLoses = "timer of a resumed lease closes Lost after the release"
	lateOnLostCalls  = "OnLost that is called after the release calls back"
	batchLoses       = "batch that meets the release of its lease closes Lost"
	oldTimerLoses    = "renewal in the last 5 ms does not stop the timer of the old deadline"
	readersOldTimer  = "renewal of a reader in the last 5 ms does not stop the timer of the old deadline"
	onLostWatches    = "each call of OnLost starts a goroutine that ends with the lease"
	lostWatches      = "each call of Lost starts a goroutine that ends with the lease"
	releaseWatches   = "release of a lease that has an OnLost leaves a goroutine"
	waitLosesLate    = "Lost of a lease that was waited for closes 3 seconds late"
	resumeLosesLate  = "Lost of a resumed lease closes 3 seconds late"
	lostNoToken      = "token of a lost lease is 0"
	renewsLost       = "renewal between the deadline and the expiry succeeds"
)

// lifeMutants are bugs of timers, callbacks and goroutines of one lease.
var lifeMutants = []mutant{
	{answerLoses, "LostNeverAfterRelease"},
	{batchTimerLoses, "LostNeverAfterRelease"},
	{waitTimerLoses, "LostNeverAfterRelease"},
	{resumeTimerLoses, "LostNeverAfterRelease"},
	{lateOnLostCalls, "LostNeverAfterRelease"},
	{batchLoses, "LostNeverAfterRelease"},
	{batchLoses, "RenewRacesRelease"},
	{oldTimerLoses, "RenewRacesExpiry"},
	{onLostWatches, "LeasesCostNoGoroutines"},
	{lostWatches, "LeasesCostNoGoroutines"},
	{releaseWatches, "LeasesCostNoGoroutines"},
	{waitLosesLate, "LeasesAreAlike"},
	{resumeLosesLate, "LeasesAreAlike"},
	{lostNoToken, "TokensIncrease"},
	{renewsLost, "RenewAfterExpiry"},
}

// An oddLife is a lease with one of lifeMutants, or with readersOldTimer. It has a Lost channel of its own.
type oddLife struct {
	*kit.Life
	c        *client
	lost     chan struct{}
	loses    func() // closes lost
	released atomic.Bool
	notifies atomic.Bool // OnLost has been called
	renewed  atomic.Bool
	begun    atomic.Int64 // calls of Release
	taken    atomic.Bool  // its client has resumed the lease, as a bug

	mu    sync.Mutex
	timer *time.Timer // closes lost at the deadline; in some mutants
}

// oddly returns life with the client's bug, or nil if the client has none of lifeMutants.
func (c *client) oddly(life *kit.Life, waited, resumed bool) backend.Lease {
	if !c.hasOddLives() {
		return nil
	}
	o := &oddLife{Life: life, c: c, lost: make(chan struct{})}
	o.loses = sync.OnceFunc(func() { close(o.lost) })
	o.takesTimer(resumed)
	loses := o.losesUnlessClosed
	if waited && o.is(waitLosesLate) || resumed && o.is(resumeLosesLate) {
		loses = func() { time.AfterFunc(3*time.Second, o.loses) }
	}
	life.OnLost(loses)
	if waited && o.is(waitTimerLoses) || resumed && o.is(resumeTimerLoses) {
		o.losesAt(life.Deadline())
	}
	return o
}

func (o *oddLife) is(bugs ...string) bool { return o.c.is(bugs...) }

// losesAt sets a timer that closes Lost at the given time. A release does not stop it.
func (o *oddLife) losesAt(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
	o.timer = time.AfterFunc(time.Until(at), o.loses)
}

// forgetsTimer stops the timer of an earlier deadline.
func (o *oddLife) forgetsTimer() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}

func (o *oddLife) Lost() <-chan struct{} {
	if o.is(lostWatches) {
		go o.watches()
	}
	return o.lost
}

// isLost reports whether Lost is closed.
func (o *oddLife) isLost() bool {
	select {
	case <-o.lost:
		return true
	default:
		return false
	}
}

func (o *oddLife) Token() uint64 {
	if o.isLost() && o.is(lostNoToken) {
		return 0
	}
	return o.Life.Token()
}

func (o *oddLife) OnLost(f func()) {
	o.notifies.Store(true)
	switch {
	case o.is(onLostWatches):
		go func() {
			o.watches()
			f()
		}()
	case o.released.Load() && o.is(lateOnLostCalls):
		f()
	default:
		o.Life.OnLost(f)
	}
}

// watches waits until the lease is lost. It never returns after a release, except at the end of the test.
func (o *oddLife) watches() {
	select {
	case <-o.Life.Lost():
	case <-o.c.server.stop:
	}
}

func (o *oddLife) Renew(ctx context.Context, ttl time.Duration) error {
	old, begun, before := o.Deadline(), time.Now(), o.released.Load()
	if o.isLost() && o.is(renewsLost) {
		_, err := requests{o.c}.RenewLease(ctx, o.Life, ttl)
		return err
	}
	err := o.Life.Renew(ctx, ttl)
	if err == nil {
		o.forgetsTimer()
		o.renewed.Store(true)
		o.renewsUntil(ctx)
	} else if errors.Is(err, context.Canceled) && o.is(cancelLoses) {
		o.loses()
	}
	switch left := time.Until(old); {
	case !before && o.released.Load() && o.is(answerLoses):
		o.losesAt(backend.Deadline(begun, ttl))
	case err == nil && left < 5*time.Millisecond && (o.is(oldTimerLoses) || o.Shared() && o.is(readersOldTimer)):
		time.AfterFunc(left, o.loses)
	}
	return o.c.cancelled(err, renewalCancels)
}

func (o *oddLife) Release(ctx context.Context) error {
	defer o.releases(ctx)()
	first := !o.released.Swap(true)
	if first && o.notifies.Load() && o.is(releaseWatches) {
		go func() { <-o.c.server.stop }()
	}
	return o.c.cancelled(o.Life.Release(ctx), releaseCancels)
}

// watchesBatch returns a function that applies the bugs of a batch to its leases, given their errors.
func watchesBatch(renewals []backend.Renewal) (answered func(errs []error)) {
	before := make([]bool, len(renewals))
	for i, r := range renewals {
		if o, ok := r.Lease.(*oddLife); ok {
			before[i] = o.released.Load()
		}
	}
	return func(errs []error) {
		for i, r := range renewals {
			o, ok := r.Lease.(*oddLife)
			if ok && errs[i] == nil {
				o.renewed.Store(true)
			}
			switch {
			case !ok:
			case errs[i] == nil && o.is(batchTimerLoses):
				o.losesAt(o.Deadline())
			case errs[i] == nil:
				o.forgetsTimer()
			case errors.Is(errs[i], backend.ErrLost) && !before[i] && o.released.Load() && o.is(batchLoses):
				o.loses()
			}
		}
	}
}
