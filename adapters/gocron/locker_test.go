package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/anylock/lock"
	gocronlock "github.com/anylock/lock/adapters/gocron"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/storetest"
)

// Two schedulers have the same jobs, and the clock of the second is behind by splay, which is longer than a job takes.
// There are enough jobs for a fire every 100 ms, and their interval leaves a busy machine more than two seconds to be
// late.
const (
	jobs     = 60
	rounds   = 2 // of all jobs: 120 fires
	interval = 6 * time.Second
	splay    = 150 * time.Millisecond
	minHold  = interval / 2
)

// fires counts how often each job ran in each round.
type fires struct {
	begin time.Time

	mu sync.Mutex
	n  map[string]int
}

// run is a job. A fire belongs to the interval in which it begins: the first scheduler is due when it begins, the
// second a splay later.
func (f *fires) run(job int) {
	round := int(time.Since(f.begin) / interval)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n[fmt.Sprintf("job %d, round %d", job, round)]++
}

// runFires lets two schedulers with a locker each run all jobs in all rounds, and counts.
func runFires(t *testing.T, first, second gocron.Locker) (missed, once, more int) {
	f := &fires{begin: time.Now().Add(time.Second), n: make(map[string]int)}
	var wg sync.WaitGroup // of each scheduler's attempts: the test ends when each fire was run or skipped by both
	for at, locker := range map[time.Duration]gocron.Locker{0: first, splay: second} {
		s := schedule(t, gocron.WithDistributedLocker(locker))
		for job := range jobs {
			wg.Add(rounds)
			var attempts atomic.Int64
			attempted := func() {
				if attempts.Add(1) <= rounds {
					wg.Done()
				}
			}
			_, err := s.NewJob(gocron.DurationJob(interval), gocron.NewTask(func() { f.run(job); attempted() }),
				gocron.WithName(fmt.Sprintf("job/%d", job)),
				gocron.WithStartAt(gocron.WithStartDateTime(f.begin.Add(at))),
				gocron.WithStopAt(gocron.WithStopDateTime(f.begin.Add(rounds*interval-time.Millisecond))),
				gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
					if !errors.Is(err, lock.ErrHeld) {
						t.Error(err)
					}
					attempted()
				})))
			if err != nil {
				t.Fatal(err)
			}
		}
		s.Start()
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After((rounds+2)*interval + storetest.Soon):
		t.Fatal("gocron does not fire")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for fire := range f.n {
		if f.n[fire] > 1 {
			more++
		}
	}
	return jobs*rounds - len(f.n), len(f.n) - more, more
}

// Each of 120 fires runs on one of two schedulers.
func TestEachFireRunsOnce(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		first := gocronlock.NewLocker(adaptertest.Open(t, url), minHold)
		second := gocronlock.NewLocker(adaptertest.Open(t, url), minHold)
		missed, once, more := runFires(t, first, second)
		t.Logf("%d fires ran once, %d more often, %d never", once, more, missed)
		if once != jobs*rounds || more != 0 {
			t.Errorf("%d fires ran once, %d more often, %d never; want %d once", once, more, missed, jobs*rounds)
		}
	})
}

// Without a minimum hold the same schedulers run fires twice: the test above would fail.
func TestWithoutMinHoldFiresRunTwice(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		missed, once, more := runFires(t, naive{adaptertest.Open(t, url)}, naive{adaptertest.Open(t, url)})
		t.Logf("%d fires ran once, %d more often, %d never", once, more, missed)
		if more == 0 {
			t.Error("no fire ran twice, so that TestEachFireRunsOnce shows nothing")
		}
	})
}

// A naive locker holds the key while the job runs, and no longer.
type naive struct{ locks *lock.Locker }

func (n naive) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	l, err := n.locks.TryAcquire(ctx, key)
	return released{l}, err
}

type released struct{ *lock.Lease }

func (r released) Unlock(ctx context.Context) error { return r.Release(ctx) }
