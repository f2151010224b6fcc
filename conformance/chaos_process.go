package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// A victim is a process that works until it is killed.
type victim struct {
	Process
	t    *trial
	gone chan struct{} // closed when it has been killed
}

// workedIn runs workers in another process, which it freezes and kills. It then starts the next process, until the
// given time. Workers and faults are numbered from id. Their random choices follow from these numbers.
func (h *history) workedIn(id int, keys workKeys, shares bool, until time.Time) {
	random := h.random(chaosActor + id)
	for n := 0; time.Now().Before(until) && !h.t.ended(); n++ {
		v := &victim{Process: h.t.process(0), t: h.t, gone: make(chan struct{})}
		var workers sync.WaitGroup
		const each = 2
		for i := range each {
			w := &worker{h: h, id: id + i, client: id, actor: v, random: h.random(id + i + 100*n), keys: keys, faulty: true,
				tries: true, expires: true, shares: shares, processKilled: v.gone} // tries: a waiting worker could not be stopped
			workers.Add(1)
			h.t.spawn(func() {
				defer workers.Done()
				w.run(until)
			})
		}
		killing := h.freezeAndKill(v, id, random, until)
		workers.Wait()
		h.killed(id, killing)
	}
}

// freezeAndKill freezes v a few times and then kills it. It returns the time of the kill, or never if it runs out of
// time before.
func (h *history) freezeAndKill(v *victim, id int, random dice, until time.Time) (killing instant) {
	freezes := 1 + random.IntN(3)
	for range freezes {
		h.sleepBetweenFaults(random)
		if !time.Now().Before(until) {
			return never
		}
		from := h.now()
		v.Freeze()
		time.Sleep(random.upTo(h.maxFaultDuration()))
		if random.IntN(4) == 0 {
			break // v is killed while it is frozen
		}
		v.Thaw()
		h.fault(faultRecord{client: id, what: fmt.Sprintf("the process of worker %d is frozen", id), from: from, to: h.now()})
	}
	h.sleepBetweenFaults(random)
	killing = h.now()
	v.Kill()
	h.fault(faultRecord{client: id, what: fmt.Sprintf("the process of worker %d is killed", id), from: killing,
		to: h.now()})
	close(v.gone)
	return killing
}

// never is later than any other instant.
const never = instant(math.MaxInt64 / 4)

// killed records that the process of client was killed at the given instant, which ended its leases. Its workers must
// have ended. A Release that began after the kill never left the process, so it does not count.
func (h *history) killed(client int, at instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.record.leases {
		if l.client == client && (l.end == endAbandoned || l.releaseCalled > at) {
			l.end, l.releaseCalled, l.releaseReturned = endKilled, at, at
		}
	}
}

func (v *victim) acquire(ctx context.Context, r backend.Request) (holding, error) {
	before := time.Now()
	answers, err := v.Acquire(r)
	if err != nil {
		return nil, err
	}
	select {
	case answer := <-answers:
		if answer.Err != nil {
			return nil, answer.Err
		}
		return &heldElsewhere{victim: v, owner: r.Owner, token: answer.Token, deadline: backend.Deadline(before, r.TTL)}, nil
	case <-v.gone:
		return nil, errKilledMeanwhile
	}
}

var errKilledMeanwhile = errors.New("the process was killed")

// A heldElsewhere is a lease that another process holds. Its deadline is the earliest deadline that the lease may have.
type heldElsewhere struct {
	*victim
	owner string
	token uint64

	mu       sync.Mutex
	deadline time.Time
}

func (l *heldElsewhere) Token() uint64 { return l.token }

func (l *heldElsewhere) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *heldElsewhere) Renew(ctx context.Context, ttl time.Duration) error {
	deadline := backend.Deadline(time.Now(), ttl)
	err := l.Process.Renew(ctx, l.owner, ttl)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || deadline.Before(l.deadline) {
		l.deadline = deadline
	}
	return err
}

func (l *heldElsewhere) Release(ctx context.Context) error { return l.Process.Release(ctx, l.owner) }
