package conformance

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

func processesExclude(t *trial) {
	const (
		processes  = 2
		goroutines = 3 // per process, this one included
		rounds     = 20
		atMost     = 3 * time.Second
	)
	var all [processes]Process
	for i := range all {
		all[i] = t.process(0)
	}
	h := t.newHistory()
	end := time.Now().Add(atMost)
	t.together((processes+1)*goroutines, func(i int) {
		for round := 0; round < rounds && !t.ended() && (round == 0 || time.Now().Before(end)); round++ {
			l, release := t.contend(h, i, all[:])
			time.Sleep(rand.N(500 * time.Microsecond))
			called := h.now()
			release()
			h.released(l, called)
		}
	})
	h.judge()
}

// contend waits for the key as one of many workers, some of which act through other processes.
func (t *trial) contend(h *history, worker int, others []Process) (l *leaseRecord, release func()) {
	if i := worker % (len(others) + 1); i < len(others) {
		called := h.now()
		r := t.remotely(others[i], t.key, t.long(), true)
		r.granted(recovery, "contention of processes")
		return h.grantedElsewhere(worker, t.key, r.owner, r.answer.Token, t.long(), called), r.release
	}
	begun := time.Now()
	g, err := t.requestKey(t.ctx, t.a, t.key, t.long(), true)
	if err != nil {
		t.unavailable(err, begun)
		t.fatalf("Acquire: %v", err)
	}
	return h.granted(worker, g), func() { t.release(g) }
}

// startSkewedProcess starts a process whose wall clock is off by skew. It skips the check if the harness cannot start
// one.
func (t *trial) startSkewedProcess(skew time.Duration) Process {
	p := t.process(skew)
	before := time.Now()
	now, err := p.Now(t.ctx)
	if err != nil {
		t.fatalf("clock of another process: %v", err)
	}
	if off := now.Sub(before); off < skew-time.Minute || off > skew+time.Minute+time.Since(before) {
		t.fatalf("the harness was asked for a process with a clock off by %v, and gave one off by %v", skew, off)
	}
	return p
}

const wrongBy = time.Hour

func wrongClockEndsNothingEarly(t *trial) {
	t.together(2, func(i int) {
		p := t.startSkewedProcess([]time.Duration{wrongBy, -wrongBy}[i])
		// A lease of the process with the wrong clock, as other clients see it.
		r := t.remoteHold(p, t.newKey(), t.short())
		if most := backend.Deadline(r.after, t.kept(t.g.Round(r.ttl))).Sub(r.before); r.answer.Left > most {
			t.fatalf("the deadline of a lease of %v is %v away by a wrong clock", r.ttl, r.answer.Left)
		}
		if _, err := t.requestKey(t.ctx, t.b, r.key, t.short(), false); err == nil && time.Now().Before(r.until()) {
			t.doubleGrant("a key held by a process with a wrong clock was granted %v before its deadline", time.Until(r.until()))
		} else if err == nil {
			t.tooLate("a lease of another process ended before a second owner was refused")
		}
		// Leases of other clients, as that process sees them: it tries to acquire one key, and waits for the other.
		tried, waited := t.acquire(t.a, t.newKey(), t.short()), t.acquire(t.a, t.newKey(), t.short())
		refused, waits := t.remotely(p, tried.key, t.short(), false), t.remotely(p, waited.key, t.short(), true)
		if !refused.answered(soon) {
			t.tooLate("no answer from another process")
		}
		switch err := refused.answer.Err; {
		case err == nil && tried.live(refused.after):
			t.doubleGrant("a process with a wrong clock was granted the key %v before the holder's deadline",
				time.Until(tried.Deadline()))
		case err == nil || errors.Is(err, backend.ErrLost):
			t.tooLate("the holder's lease ended before a second owner was refused")
		case !errors.Is(err, backend.ErrHeld):
			t.lateOnTimeout(err, refused.before)
			t.fatalf("Acquire of a held key by a process with a wrong clock: %v, want ErrHeld", err)
		}
		waits.granted(t.g.Round(waited.ttl)+t.handOff(), "after the holder's expiry, in a process with a wrong clock")
		if early := waited.Deadline().Sub(waits.after); early > 0 {
			t.doubleGrant("a waiter with a wrong clock was granted the key %v before the holder's deadline", early)
		}
		t.outlast(t.lastRefusal(tried.after, tried.ttl))
		t.remoteHold(p, tried.key, t.short())
		t.release(t.takesOver(r, r.after))
		if t.g.Shared {
			t.readsByWrongClock(p)
		}
	})
}

// readsByWrongClock makes a process with a wrong clock read a key, and request the key of another reader.
func (t *trial) readsByWrongClock(p Process) {
	r, reader := t.remoteRead(p, t.newKey(), t.short()), t.read(t.a, t.newKey(), t.short())
	refused := t.remotely(p, reader.key, t.short(), false)
	_, err := t.requestKey(t.ctx, t.b, r.key, t.short(), false)
	switch now := time.Now(); {
	case err == nil && now.Before(r.until()):
		t.doubleGrant("a key that a process with a wrong clock reads was granted %v before its deadline",
			r.until().Sub(now))
	case err == nil:
		t.tooLate("a reader's lease in another process ended before a writer was refused")
	case !refused.answered(soon):
		t.tooLate("no answer from another process")
	case refused.answer.Err == nil && reader.live(refused.after):
		t.doubleGrant("a process with a wrong clock was granted the key %v before the deadline of its reader",
			reader.Deadline().Sub(refused.after))
	}
	t.release(t.takesOver(r, r.after))
}

func wrongClockKeepsOrder(t *trial) {
	const (
		rounds = 10
		atMost = 2 * time.Second
	)
	ahead, behind := t.startSkewedProcess(wrongBy), t.startSkewedProcess(-wrongBy)
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.spawn(func() { // a client with a fast clock cleans up when it opens; it must not remove records in use
		defer close(stopped)
		for range rounds {
			select {
			case <-stop:
				return
			default:
				t.startSkewedProcess(wrongBy).Kill()
			}
		}
	})
	defer func() {
		close(stop)
		<-stopped
	}()
	last := uint64(0)
	next := func(token uint64, who string) {
		if token <= last && t.g.Fencing > backend.FencingNone {
			t.fatalf("token %d was granted to %s after token %d", token, who, last)
		}
		last = token
	}
	for end := time.Now().Add(atMost); last == 0 || time.Now().Before(end) && !t.ended(); {
		first := t.remoteHold(ahead, t.key, t.long())
		next(first.answer.Token, "a process whose clock is ahead")
		second := t.remoteWait(behind, t.key, t.long(), 1)
		first.release()
		second.granted(t.handOff(), "after release, in a process whose clock is behind")
		next(second.answer.Token, "a process whose clock is behind")
		w := t.wait(t.b, t.key, t.long())
		t.arrived(t.key, 1)
		second.release()
		third := w.granted(t, t.handOff(), "after release by a process with a wrong clock")
		next(third.Token(), "a process whose clock is right")
		t.release(third)
		fourth := t.remoteHold(behind, t.key, t.long())
		next(fourth.answer.Token, "a process whose clock is behind, of a free key")
		fourth.release()
		if t.g.Fencing == backend.FencingNone {
			last++
		}
	}
}
