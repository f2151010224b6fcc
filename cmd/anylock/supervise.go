package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// A lease is what a supervisor needs of a *lock.Lease.
type lease interface {
	Deadline() time.Time
	Lost() <-chan struct{}
}

const (
	// lateGrace is what a command gets between SIGTERM and SIGKILL that is found running after its lease has ended.
	lateGrace = 100 * time.Millisecond
	// groupPoll is how often to look whether a group that got SIGTERM has gone: no event says so.
	groupPoll = 5 * time.Millisecond
	// restPoll is how often to check a group whose command has ended after a signal. Its cleanup may take a while.
	restPoll = 20 * time.Millisecond
	// killPatience is how long to wait for killed processes. One in an uninterruptible system call takes its time.
	killPatience = time.Second
	// resumeAfter is when to continue a stopped command if this process could not be stopped with it: a shell that
	// could continue us is not there.
	resumeAfter = 200 * time.Millisecond
	// foreignFirst is when to look first for processes of other users. The pauses grow to foreignLast.
	foreignFirst, foreignLast = 100 * time.Millisecond, 10 * time.Second
	// maxHoldShare is the part of the TTL by which a lease may end before the longest hold: see lock.WithMaxHold.
	maxHoldShare = 3
)

// killMargin is how long before its deadline a lease's command is killed: what killing takes on a busy machine.
func killMargin(ttl time.Duration) time.Duration {
	const most, share = time.Second, 10
	return min(most, ttl/share)
}

// A supervisor keeps a command from running without its lock: it is stopped, with all its group, before the lease ends.
// The order of events is of no matter: each turn looks at the clock first, so that after a stop of this process itself
// nothing is continued that must end.
type supervisor struct {
	lease   lease
	child   child
	signals <-chan os.Signal
	ttl     time.Duration // as asked for; the lease's may be longer
	grace   time.Duration // between SIGTERM and SIGKILL
	maxHold time.Duration // at which the lease ends for good, 0 for never
	say     func(format string, args ...any)
	// guarded ends, with a cause, when no guard runs any more. Without a guard the command must not run.
	guarded context.Context
	// lastError is why renewals do not succeed, as far as is known.
	lastError func() string

	begun    time.Time
	exited   bool // the command itself has ended, with code
	code     int
	stopping bool // SIGTERM was sent because the lock is lost, or will be
	killed   bool
	killAt   time.Time // when SIGKILL is due; of the kill, once killed
	resumeAt time.Time // not zero while suspended

	passed  []os.Signal   // signals of signalsEnding that were passed on
	asked   bool          // the command has ended because of a signal, as far as can be known
	rest    bool          // the command ended after that signal, but not all of its group: the lock is kept
	foreign bool          // some processes were seen that are not ours to stop
	outlive bool          // only such processes are left
	lookAt  time.Time     // when to look for such processes
	every   time.Duration // and how long after the last time
}

// An outcome is how a command ended.
type outcome struct {
	code int
	lost bool // the lock, or its guard, did not last as long as the command
}

// run returns when the command has ended and, if its lock was lost, all of its group too.
func (s *supervisor) run() outcome {
	s.begun = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	lost, unguarded := s.lease.Lost(), s.guarded.Done()
	for {
		// A command that has ended by itself is not taken for one that has to be stopped.
		select {
		case e := <-s.child.events():
			s.happened(e)
		default:
		}
		s.look()
		if s.done() {
			return outcome{s.code, s.stopping}
		}
		timer.Reset(s.pause())
		select {
		case e := <-s.child.events():
			s.happened(e)
		case sig := <-s.signals:
			s.received(sig)
		case <-lost:
			lost = nil // look sees it
		case <-unguarded:
			unguarded = nil
			if !s.stopping {
				s.stop(context.Cause(s.guarded))
			}
		case <-timer.C:
		}
	}
}

func (s *supervisor) happened(e childEvent) {
	switch {
	case e.stopped == nil:
		s.exited, s.code = true, e.code
		s.asked = s.wasAsked(e)
		if reason := s.over(); reason != nil && !s.stopping {
			s.stop(fmt.Errorf("%w while the command ran", reason)) // what it has left running ends too
		}
	case s.stopping:
	case s.child.stopped(e.stopped):
		s.resumeAt = time.Now().Add(resumeAfter)
		s.child.suspend()
	}
}

// wasAsked reports whether the command has ended because of a signal, to us or from its terminal. The exit code does
// not matter if the signal asks every program to end, because a program may handle it.
func (s *supervisor) wasAsked(e childEvent) bool {
	return e.signal != nil && slices.Contains(signalsOfTerminal, e.signal) ||
		slices.ContainsFunc(s.passed, func(sig os.Signal) bool {
			return sig == e.signal ||
				slices.Contains(signalsToEnd, sig)
		})
}

func (s *supervisor) received(sig os.Signal) {
	if sig != signalContinue {
		if ending(sig) {
			s.passed = append(s.passed, sig)
		}
		s.child.forward(sig)
		return
	}
	// We may have been stopped for long.
	s.look()
	if !s.stopping {
		s.resumeAt = time.Time{}
		s.child.resume()
	}
}

// look does what the clock and the lease ask for.
func (s *supervisor) look() {
	if s.exited && !s.stopping && !s.rest {
		return
	}
	now := time.Now()
	if !s.foreign && !now.Before(s.lookAt) {
		s.lookForForeign(now)
	}
	switch left := s.lease.Deadline().Sub(now); {
	case s.stopping:
	case s.over() != nil:
		s.stop(s.over())
	case left <= s.grace+killMargin(s.ttl):
		s.stop(s.noRenewal(left))
	case !s.resumeAt.IsZero() && !now.Before(s.resumeAt):
		s.resumeAt = time.Time{}
		s.child.resume()
	}
	if (s.stopping || s.rest) && !s.killed && !now.Before(s.killAt) {
		s.killed, s.killAt = true, now
		s.kill()
	}
}

func (s *supervisor) kill() {
	foreign := s.child.foreign()
	if !s.stopping && !foreign {
		s.say("the command has ended, but processes that it started still ran %s later: killing them", shortDuration(s.grace))
	}
	s.child.kill()
	if s.stopping && foreign {
		s.say("processes of the command that run as another user could not be killed, and keep running")
	}
}

// lookForForeign says once that there are processes which only another user can stop. sudo takes a moment to be one, so
// that it looks often at first.
func (s *supervisor) lookForForeign(now time.Time) {
	s.every = min(max(2*s.every, foreignFirst), foreignLast)
	s.lookAt = now.Add(s.every)
	if s.foreign = s.child.foreign(); s.foreign {
		s.say("the command runs something as another user, which anylock cannot stop if the lock is lost; " +
			"run anylock itself as that user, as in: sudo anylock run")
	}
}

func (s *supervisor) noRenewal(left time.Duration) error {
	if s.maxHold > 0 && time.Since(s.begun)+left > s.maxHold-s.ttl/maxHoldShare {
		return fmt.Errorf("--max-hold is over in %s", shortDuration(left))
	}
	because := ""
	if e := s.lastError(); e != "" {
		because = " (" + e + ")"
	}
	return fmt.Errorf("no renewal has succeeded%s, the lease ends in %s", because, shortDuration(left))
}

// over is why the lease has ended, nil if it has not.
func (s *supervisor) over() error {
	late := time.Since(s.lease.Deadline())
	select {
	case <-s.lease.Lost():
		if late < 0 {
			return errors.New("the lock is lost: the store no longer has it")
		}
	default:
		if late < 0 {
			return nil
		}
	}
	return fmt.Errorf("the lock is lost: its lease ended %s ago", shortDuration(late))
}

// stop sends SIGTERM and sets the time for SIGKILL, before the deadline unless that has passed.
func (s *supervisor) stop(why error) {
	s.stopping = true
	now := time.Now()
	deadline := s.lease.Deadline()
	killAt := now.Add(min(s.grace, lateGrace))
	if left := deadline.Sub(now); left > 0 {
		killAt = now.Add(min(s.grace, left-killMargin(s.ttl)))
	}
	if !s.rest || killAt.Before(s.killAt) && !s.killed {
		s.killAt = killAt
	}
	s.child.terminate(now.Before(deadline))
	if s.exited {
		s.say("%v", why)
	} else {
		s.say("%v; stopping the command", why)
	}
}

// done reports whether the command and every process that must end with it have ended. Processes that the command left
// in the background must end with it if the lock is lost or a signal asked the command to end.
func (s *supervisor) done() bool {
	switch {
	case !s.exited:
		return false
	case !s.stopping && !s.asked, s.child.gone():
		return true
	}
	if !s.stopping && !s.rest {
		s.rest, s.killAt = true, time.Now().Add(s.grace)
	}
	s.outlive = s.child.foreign() // no next holder may run beside such a process while we can keep the lock
	if !s.outlive && s.killed && time.Since(s.killAt) > killPatience {
		s.say("some processes of the command have been killed but have not ended yet")
		return true
	}
	return false
}

// pause is how long nothing can be due.
func (s *supervisor) pause() time.Duration {
	switch {
	case s.outlive:
		return foreignFirst
	case s.rest && !s.stopping:
		return restPoll
	case s.stopping && s.exited:
		return groupPoll
	case s.stopping && s.killed:
		return killPatience // only its end is awaited
	case s.stopping:
		return time.Until(s.killAt)
	}
	next := time.Until(s.lease.Deadline()) - s.grace - killMargin(s.ttl)
	if !s.foreign {
		next = min(next, time.Until(s.lookAt))
	}
	if !s.resumeAt.IsZero() {
		next = min(next, time.Until(s.resumeAt))
	}
	return next
}
