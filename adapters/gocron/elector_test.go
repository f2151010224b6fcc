package gocronlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/anylock/lock"
	gocronlock "github.com/anylock/lock/adapters/gocron"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/storetest"
)

const (
	tick    = 50 * time.Millisecond
	leadTTL = 5 * time.Second
	leadEnv = "GOCRONLOCK_LEAD" // the URL for the process that leads until it is killed
)

// leading returns an elector with a scheduler whose job sends to ran while it leads.
func leading(t *testing.T, url string) (e *gocronlock.Elector, s gocron.Scheduler, ran <-chan struct{}) {
	t.Helper()
	e = gocronlock.NewElector(adaptertest.Open(t, url, lock.WithTTL(leadTTL)), "leader")
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	s = schedule(t, gocron.WithDistributedElector(e))
	return e, s, start(t, s)
}

func start(t *testing.T, s gocron.Scheduler) <-chan struct{} {
	t.Helper()
	runs := make(chan struct{}, 1)
	_, err := s.NewJob(gocron.DurationJob(tick), gocron.NewTask(func() {
		select {
		case runs <- struct{}{}:
		default:
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return runs
}

func runs(t *testing.T, ran <-chan struct{}) {
	t.Helper()
	select {
	case <-ran:
	case <-time.After(leadTTL + 2*storetest.Soon):
		t.Fatal("the job does not run")
	}
}

// One scheduler of two runs the job. When its elector closes, the other takes over.
func TestElectorHandsOver(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		first, firstScheduler, ran := leading(t, url)
		runs(t, ran)
		second, _, ran := leading(t, url)
		if err := second.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("the second elector: %v", err)
		}
		for range 10 {
			if err := first.IsLeader(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ran:
				t.Fatal("the scheduler that does not lead ran the job")
			case <-time.After(tick):
			}
		}
		if err := errors.Join(firstScheduler.StopJobs(), first.Close()); err != nil {
			t.Fatal(err)
		}
		if err := first.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, lock.ErrReleased) {
			t.Errorf("a closed elector: %v", err)
		}
		runs(t, ran)
	})
}

// When the process that leads is killed, another's elector takes over.
func TestElectorTakesOverFromTheDead(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		leader := exec.Command(os.Args[0])
		leader.Env = append(os.Environ(), leadEnv+"="+url)
		leader.Stderr = os.Stderr
		out, err := leader.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := leader.Start(); err != nil {
			t.Fatal(err)
		}
		killed := false
		kill := func() {
			if !killed {
				killed = true
				_ = leader.Process.Kill()
				_ = leader.Wait()
			}
		}
		t.Cleanup(kill)
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("the process that leads: %q, %v", line, err)
		}
		second, _, ran := leading(t, url)
		if err := second.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("the second elector: %v", err)
		}
		kill()
		runs(t, ran)
	})
}

// leadUntilKilled is the process that leads. It prints a line when its job has run.
func leadUntilKilled(url string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	locks, err := lock.Open(context.Background(), url, lock.WithTTL(leadTTL))
	fail(err)
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(gocronlock.NewElector(locks, "leader")))
	fail(err)
	_, err = s.NewJob(gocron.DurationJob(tick), gocron.NewTask(func() { fmt.Println("led") }))
	fail(err)
	s.Start()
	time.Sleep(time.Minute) // sleeps: a process that lives until the test kills it
	os.Exit(1)
}

// An elector that has lost its key says so, and leads again when the key is free. When its Locker is closed, it leads
// no more.
func TestElectorLeadsAgain(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		others := adaptertest.Open(t, url)
		locks := adaptertest.Open(t, url, lock.WithTTL(leadTTL))
		e := gocronlock.NewElector(locks, "leader")
		defer e.Close()
		leads := func() bool { return e.IsLeader(t.Context()) == nil }
		storetest.Until(t, storetest.Soon, "the elector to lead", leads)
		h, err := others.Ops().Inspect(t.Context(), "leader")
		if err != nil {
			t.Fatal(err)
		}
		if err := others.Ops().Break(t.Context(), "leader", h.Owner); err != nil {
			t.Fatal(err)
		}
		l, err := others.Acquire(t.Context(), "leader")
		if err != nil {
			t.Fatal(err)
		}
		storetest.Until(t, leadTTL, "the elector to notice its loss",
			func() bool { return errors.Is(e.IsLeader(t.Context()), lock.ErrLost) })
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		storetest.Until(t, storetest.Soon, "the elector to lead again", leads)

		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		storetest.Until(t, storetest.Soon, "the elector to end",
			func() bool { return errors.Is(e.IsLeader(t.Context()), lock.ErrClosed) })
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An elector that can never lead says why.
func TestElectorSaysWhatFails(t *testing.T) {
	t.Parallel()
	e := gocronlock.NewElector(adaptertest.Open(t, "file://"+t.TempDir()), "") // the empty key is invalid
	storetest.Until(t, storetest.Soon, "the error of an invalid key", func() bool {
		err := e.IsLeader(t.Context())
		return errors.Is(err, gocronlock.ErrNotLeader) && errors.Is(err, lock.ErrInvalid)
	})
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// With shared leases several would lead. An owner is for one acquisition.
func TestElectorRefusesOptions(t *testing.T) {
	t.Parallel()
	for _, refused := range []lock.AcquireOption{lock.Shared(), lock.WithOwner("me")} {
		e := gocronlock.NewElector(adaptertest.Open(t, "file://"+t.TempDir()), "leader", refused)
		storetest.Until(t, storetest.Soon, "the refusal", func() bool {
			return errors.Is(e.IsLeader(t.Context()), lock.ErrInvalid)
		})
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
