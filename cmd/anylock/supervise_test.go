//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeLease is a lease whose deadline the tests set.
type fakeLease struct {
	mu       sync.Mutex
	deadline time.Time
	lost     chan struct{}
}

func (l *fakeLease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *fakeLease) Lost() <-chan struct{} { return l.lost }

func (l *fakeLease) renew(ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = time.Now().Add(ttl)
}

// A fakeChild records its signals and the time of each since the start.
type fakeChild struct {
	start      time.Time
	reports    chan childEvent
	onTerm     func() // runs when the command receives SIGTERM
	survivors  bool   // the group has members that only SIGKILL ends
	suspends   bool   // the result of stopped
	unkillable bool   // the group has members that nothing ends

	mu     sync.Mutex
	log    []string
	exited bool // exit was called
}

func newFakeChild() *fakeChild {
	return &fakeChild{start: time.Now(), reports: make(chan childEvent, 8)}
}

func (c *fakeChild) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf("%v ", time.Since(c.start))+fmt.Sprintf(format, args...))
}

func (c *fakeChild) events() <-chan childEvent { return c.reports }
func (c *fakeChild) renewed()                  {}
func (c *fakeChild) forward(sig os.Signal)     { c.note("%v", sig) }
func (c *fakeChild) suspend()                  { c.note("suspend") }
func (c *fakeChild) resume()                   { c.note("resume") }
func (c *fakeChild) close()                    {}

func (c *fakeChild) stopped(os.Signal) bool { return c.suspends }

func (c *fakeChild) terminate(wake bool) {
	c.note("TERM wake=%v", wake)
	if c.onTerm != nil {
		go c.onTerm()
	}
}

func (c *fakeChild) kill() {
	c.note("KILL")
	c.mu.Lock()
	c.survivors = false
	exited := c.exited
	c.mu.Unlock()
	if !exited {
		c.exit(exitSignal + 9)
	}
}

func (c *fakeChild) foreign() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unkillable
}

// endUnkillable ends the members that no signal ends.
func (c *fakeChild) endUnkillable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unkillable = false
}

// endSurvivors ends the members that otherwise end only by SIGKILL.
func (c *fakeChild) endSurvivors() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.survivors = false
}

func (c *fakeChild) groupEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.survivors && !c.unkillable
}

func (c *fakeChild) exit(code int) {
	c.mu.Lock()
	c.exited = true
	c.mu.Unlock()
	select {
	case c.reports <- childEvent{code: code}:
	default:
	}
}

// A stage is a supervisor whose lease, child and signals are fakes.
type stage struct {
	*supervisor
	lease   *fakeLease
	child   *fakeChild
	signals chan os.Signal
	said    []string
}

const (
	testTTL   = 30 * time.Second
	testGrace = 10 * time.Second
)

func newStage() *stage {
	s := &stage{
		lease: &fakeLease{deadline: time.Now().Add(testTTL), lost: make(chan struct{})},
		child: newFakeChild(), signals: make(chan os.Signal, 8),
	}
	s.supervisor = &supervisor{
		lease: s.lease, child: s.child, signals: s.signals, ttl: testTTL, grace: testGrace,
		lastError: func() string { return "no route" }, guarded: context.Background(),
		say: func(format string, args ...any) { s.said = append(s.said, fmt.Sprintf(format, args...)) },
	}
	return s
}

// after runs f after d, in the background.
func after(d time.Duration, f func()) {
	go func() {
		time.Sleep(d) // sleeps: in fake time
		f()
	}()
}

func TestSupervise(t *testing.T) {
	for _, test := range []struct {
		name string
		plan func(s *stage)
		want outcome
		ends time.Duration
		log  []string
		says string // part of what is reported
	}{
		{
			name: "its own end",
			plan: func(s *stage) { after(time.Second, func() { s.child.exit(7) }) },
			want: outcome{code: 7}, ends: time.Second,
		},
		{
			name: "renewed for as long as it takes",
			plan: func(s *stage) {
				for i := range 20 {
					after(time.Duration(i)*10*time.Second, func() { s.lease.renew(testTTL) })
				}
				after(200*time.Second, func() { s.child.exit(0) })
			},
			want: outcome{}, ends: 200 * time.Second,
		},
		{
			name: "no renewal: killed inside the lease",
			plan: func(s *stage) {},
			want: outcome{code: 137, lost: true}, ends: 29 * time.Second,
			log:  []string{"19s TERM wake=true", "29s KILL"},
			says: "no renewal has succeeded (no route), the lease ends in 11s; stopping the command",
		},
		{
			name: "no renewal: ends when asked",
			plan: func(s *stage) { s.child.onTerm = func() { time.Sleep(time.Second); s.child.exit(0) } }, // sleeps: in fake time
			want: outcome{lost: true}, ends: 20 * time.Second,
			log: []string{"19s TERM wake=true"},
		},
		{
			name: "no renewal: ends, but leaves a process that ignores SIGTERM",
			plan: func(s *stage) {
				s.child.survivors = true
				s.child.onTerm = func() { time.Sleep(time.Second); s.child.exit(0) } // sleeps: in fake time
			},
			want: outcome{lost: true}, ends: 29 * time.Second,
			log: []string{"19s TERM wake=true", "29s KILL"},
		},
		{
			name: "renewed after a shaky time",
			plan: func(s *stage) {
				after(18*time.Second, func() { s.lease.renew(testTTL) })
				after(30*time.Second, func() { s.child.exit(0) })
			},
			want: outcome{}, ends: 30 * time.Second,
		},
		{
			name: "the store dropped the lease",
			plan: func(s *stage) { after(3*time.Second, func() { close(s.lease.lost) }) },
			want: outcome{code: 137, lost: true}, ends: 13 * time.Second,
			log:  []string{"3s TERM wake=true", "13s KILL"},
			says: "the store no longer has it; stopping the command",
		},
		{
			name: "the store dropped the lease shortly before its deadline",
			plan: func(s *stage) {
				s.grace = 25 * time.Second
				after(4*time.Second, func() { close(s.lease.lost) })
			},
			want: outcome{code: 137, lost: true}, ends: 29 * time.Second,
			log: []string{"4s TERM wake=true", "29s KILL"},
		},
		{
			name: "frozen past the deadline",
			plan: func(s *stage) { s.lease.deadline = time.Now().Add(-time.Minute) },
			want: outcome{code: 137, lost: true}, ends: lateGrace,
			log:  []string{"0s TERM wake=false", "100ms KILL"},
			says: "its lease ended 1m0s ago; stopping the command",
		},
		{
			name: "frozen past the deadline, the command has ended meanwhile",
			plan: func(s *stage) {
				s.lease.deadline = time.Now().Add(-time.Minute)
				s.child.exit(0)
			},
			want: outcome{lost: true}, ends: 0,
			log:  []string{"0s TERM wake=false"},
			says: "its lease ended 1m0s ago while the command ran",
		},
		{
			name: "the command ends at the moment at which it would be stopped",
			plan: func(s *stage) {
				s.lease.deadline = time.Now().Add(testGrace)
				s.child.exit(3)
			},
			want: outcome{code: 3}, ends: 0,
		},
		{
			name: "something that runs as another user is left after a signal: the lock is kept",
			plan: func(s *stage) {
				s.child.unkillable = true
				after(time.Second, func() { s.signals <- syscall.SIGTERM })
				after(2*time.Second, func() { s.child.exit(143) })
				after(18*time.Second, func() { s.lease.renew(testTTL) })
				after(35*time.Second, func() { s.lease.renew(testTTL) })
				after(39950*time.Millisecond, s.child.endUnkillable)
			},
			want: outcome{code: 143, signaled: true}, ends: 40 * time.Second,
			log:  []string{"1s terminated", "12s KILL"},
			says: "run anylock itself as that user",
		},
		{
			name: "something that runs as another user is left in the background",
			plan: func(s *stage) {
				after(50*time.Millisecond, func() { s.child.mu.Lock(); s.child.unkillable = true; s.child.mu.Unlock() })
				after(2*time.Second, func() { s.child.exit(0) })
			},
			want: outcome{}, ends: 2 * time.Second,
			says: "run anylock itself as that user",
		},
		{
			name: "something that runs as another user cannot be stopped when the lock is lost",
			plan: func(s *stage) {
				s.child.unkillable = true
				after(49950*time.Millisecond, s.child.endUnkillable)
			},
			want: outcome{code: 137, lost: true}, ends: 50 * time.Second,
			log:  []string{"19s TERM wake=true", "29s KILL"},
			says: "could not be killed, and keep running",
		},
		{
			name: "no guard runs any more",
			plan: func(s *stage) {
				ctx, cancel := context.WithCancelCause(context.Background())
				s.guarded = ctx
				after(3*time.Second, func() { cancel(errors.New("no guard")) })
			},
			want: outcome{code: 137, lost: true}, ends: 13 * time.Second,
			log:  []string{"3s TERM wake=true", "13s KILL"},
			says: "no guard; stopping the command",
		},
		{
			name: "the longest hold",
			plan: func(s *stage) { s.maxHold = testTTL },
			want: outcome{code: 137, lost: true}, ends: 29 * time.Second,
			log:  []string{"19s TERM wake=true", "29s KILL"},
			says: "--max-hold is over in 11s; stopping the command",
		},
		{
			name: "signals",
			plan: func(s *stage) {
				after(time.Second, func() { s.signals <- syscall.SIGUSR1 })
				after(2*time.Second, func() { s.signals <- syscall.SIGTERM })
				after(3*time.Second, func() { s.child.exit(143) })
			},
			want: outcome{code: 143, signaled: true}, ends: 3 * time.Second,
			log: []string{"1s user defined signal 1", "2s terminated"},
		},
		{
			name: "a signal: the lock is kept until the rest of the group has ended",
			plan: func(s *stage) {
				s.child.survivors = true
				after(time.Second, func() { s.signals <- syscall.SIGTERM })
				after(1100*time.Millisecond, func() { s.child.exit(0) })
				after(5090*time.Millisecond, s.child.endSurvivors)
			},
			want: outcome{signaled: true}, ends: 5100 * time.Millisecond,
			log: []string{"1s terminated"},
		},
		{
			name: "a signal: the rest of the group is killed after the grace",
			plan: func(s *stage) {
				s.child.survivors = true
				after(time.Second, func() { s.signals <- syscall.SIGTERM })
				after(2*time.Second, func() { s.child.exit(143) })
			},
			want: outcome{code: 143, signaled: true}, ends: 12 * time.Second,
			log:  []string{"1s terminated", "12s KILL"},
			says: "processes that it started still ran 10s later: killing them",
		},
		{
			name: "a signal, and the lock is lost while the rest of the group ends",
			plan: func(s *stage) {
				s.child.survivors = true
				after(14*time.Second, func() { s.signals <- syscall.SIGTERM })
				after(15*time.Second, func() { s.child.exit(143) })
			},
			want: outcome{code: 143, lost: true, signaled: true}, ends: 25 * time.Second,
			log:  []string{"14s terminated", "19s TERM wake=true", "25s KILL"},
			says: "no renewal has succeeded (no route), the lease ends in 11s",
		},
		{
			name: "Ctrl-C at the terminal ends the command only",
			plan: func(s *stage) {
				s.child.survivors = true
				after(time.Second, func() { s.child.reports <- childEvent{code: 130, signal: syscall.SIGINT, ownTTY: true} })
				after(2990*time.Millisecond, s.child.endSurvivors)
			},
			want: outcome{code: 130, signaled: true, interrupt: commandInterrupt}, ends: 3 * time.Second,
		},
		{
			name: "Ctrl-C at a terminal that the command shares with anylock",
			plan: func(s *stage) {
				after(time.Second, func() { s.signals <- syscall.SIGINT })
				after(2*time.Second, func() { s.child.reports <- childEvent{code: 130, signal: syscall.SIGINT} })
			},
			want: outcome{code: 130, signaled: true, interrupt: ownInterrupt}, ends: 2 * time.Second,
			log: []string{"1s interrupt"},
		},
		{
			name: "Ctrl-C, which the command handles",
			plan: func(s *stage) {
				after(time.Second, func() { s.signals <- syscall.SIGINT })
				after(2*time.Second, func() { s.child.exit(9) })
			},
			want: outcome{code: 9, signaled: true}, ends: 2 * time.Second,
			log: []string{"1s interrupt"},
		},
		{
			name: "SIGUSR1 ends the command only",
			plan: func(s *stage) {
				s.child.survivors = true
				after(time.Second, func() { s.signals <- syscall.SIGUSR1 })
				after(2*time.Second, func() { s.child.reports <- childEvent{code: 138, signal: syscall.SIGUSR1} })
				after(2990*time.Millisecond, s.child.endSurvivors)
			},
			want: outcome{code: 138, signaled: true}, ends: 3 * time.Second,
			log: []string{"1s user defined signal 1"},
		},
		{
			name: "a command that handles SIGUSR1 leaves processes in the background",
			plan: func(s *stage) {
				s.child.survivors = true
				after(time.Second, func() { s.signals <- syscall.SIGUSR1 })
				after(2*time.Second, func() { s.child.exit(0) })
			},
			want: outcome{}, ends: 2 * time.Second,
			log: []string{"1s user defined signal 1"},
		},
		{
			name: "Ctrl-Z, then continued in time",
			plan: func(s *stage) {
				s.child.suspends = true
				after(time.Second, func() { s.child.reports <- childEvent{stopped: syscall.SIGTSTP} })
				after(1100*time.Millisecond, func() { s.signals <- syscall.SIGCONT })
				after(2*time.Second, func() { s.child.exit(0) })
			},
			want: outcome{}, ends: 2 * time.Second,
			log: []string{"1s suspend", "1.1s resume"},
		},
		{
			name: "Ctrl-Z without a shell that could continue",
			plan: func(s *stage) {
				s.child.suspends = true
				after(time.Second, func() { s.child.reports <- childEvent{stopped: syscall.SIGTSTP} })
				after(2*time.Second, func() { s.child.exit(0) })
			},
			want: outcome{}, ends: 2 * time.Second,
			log: []string{"1s suspend", "1.2s resume"},
		},
		{
			name: "Ctrl-Z, continued too late: the command does not go on",
			plan: func(s *stage) {
				s.child.suspends = true
				after(time.Second, func() {
					s.child.reports <- childEvent{stopped: syscall.SIGTSTP}
					synctest.Wait()
					s.lease.mu.Lock() // simulates a jump of the clock while this process was stopped
					s.lease.deadline = time.Now().Add(-time.Minute)
					s.lease.mu.Unlock()
					s.signals <- syscall.SIGCONT
				})
			},
			want: outcome{code: 137, lost: true}, ends: 1100 * time.Millisecond,
			log: []string{"1s suspend", "1s TERM wake=false", "1.1s KILL"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				test.plan(s)
				begun := time.Now()
				got := s.run()
				if got != test.want {
					t.Errorf("outcome %+v, want %+v", got, test.want)
				}
				if d := time.Since(begun); d < test.ends || d > test.ends+groupPoll {
					t.Errorf("took %v, want %v", d, test.ends)
				}
				if !slices.Equal(s.child.log, test.log) {
					t.Errorf("the child got %q, want %q", s.child.log, test.log)
				}
				if said := strings.Join(s.said, "\n"); !strings.Contains(said, test.says) {
					t.Errorf("said %q, want %q", said, test.says)
				}
			})
		})
	}
}

// If a killed process does not end because it hangs in a system call, the supervisor still returns once the command has
// ended.
func TestSuperviseUnkillable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.child.survivors = true
		s.child.exit(0)
		s.lease.deadline = time.Now()
		stuck := &stuckChild{s.child}
		s.supervisor.child = stuck
		begun := time.Now()
		if got := s.run(); !got.lost {
			t.Errorf("outcome %+v, want lost", got)
		}
		if d := time.Since(begun); d > lateGrace+killPatience+2*groupPoll {
			t.Errorf("took %v", d)
		}
		if !strings.Contains(strings.Join(s.said, "\n"), "have not ended yet") {
			t.Errorf("said %q", s.said)
		}
	})
}

type stuckChild struct{ *fakeChild }

func (c *stuckChild) kill() { c.note("KILL") }
