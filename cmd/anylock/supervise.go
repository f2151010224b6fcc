package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// A lease is the part of *lock.Lease that a supervisor needs.
type lease interface {
	Deadline() time.Time
	Lost() <-chan struct{}
}

const (
	// lateGrace limits the grace of a command that is found running after its lease has ended.
	lateGrace = 100 * time.Millisecond
	// groupPoll is how often to check whether a group has ended after SIGTERM, because no event reports that.
	groupPoll = 5 * time.Millisecond
	// restPoll is how often to check a group whose command has ended after a signal. The group's cleanup may take a while.
	restPoll = 20 * time.Millisecond
	// killPatience is how long to wait for the end of killed processes. A process in an uninterruptible system call may
	// take a while.
	killPatience = time.Second
	// resumeAfter is when to continue a stopped command if this process could not be stopped with it: then there is no
	// shell that could continue this process.
	resumeAfter = 200 * time.Millisecond
	// foreignFirst is the pause after the first check for processes of other users. The pause doubles up to foreignLast.
	foreignFirst, foreignLast = 100 * time.Millisecond, 10 * time.Second
	// maxHoldShare limits how long before --max-hold a lease may end: TTL/maxHoldShare. See lock.WithMaxHold.
	maxHoldShare = 3
)

// killMargin returns how long before the lease's deadline the command is killed: the time to kill it on a busy machine.
func killMargin(ttl time.Duration) time.Duration {
	const most, share = time.Second, 10
	return min(most, ttl/share)
}

// A supervisor keeps a command from running without its lock: it stops the command and its group before the lease ends.
// The order of events does not matter, because each iteration checks the clock first. So after a stop of this process
// itself, the supervisor does not continue a command that must end.
type supervisor struct {
	lease   lease
	child   child
	signals <-chan os.Signal
	ttl     time.Duration // as requested; the lease's TTL may be longer
	grace   time.Duration // between SIGTERM and SIGKILL
	maxHold time.Duration // after which the lease ends for good; 0 for no limit
	say     func(format string, args ...any)
	// guarded ends, with a cause, when no guard runs and none can be started. Without a guard the command must not run.
	guarded context.Context
	// lastError returns the last known reason why renewals fail, or an empty string.
	lastError func() string

	begun    time.Time
	exited   bool // the command itself has ended, with code
	code     int
	stopping bool // SIGTERM was sent because the lock or its guard is lost, or will be
	killed   bool
	killAt   time.Time // when SIGKILL is due, or when it was sent
	resumeAt time.Time // not zero while suspended

	passed            []os.Signal   // signals of signalsEnding that were passed on
	signaled          bool          // the command probably ended because of a signal
	interrupt         interrupt     // that signal, if it was SIGINT
	keepsLockForGroup bool          // the command ended after that signal, but its group did not: the lock is kept
	foreign           bool          // the group has had processes that we may not signal
	foreignRemains    bool          // the command has ended, but its group still has such processes
	foreignDue        time.Time     // when to check next for such processes
	foreignPause      time.Duration // the pause before that check
}

// An outcome is how a command ended.
type outcome struct {
	code      int
	lost      bool // the lock or its guard was lost before the command had ended
	signaled  bool // the command probably ended because of a signal
	interrupt interrupt
}

// run returns when the command has ended. If the lock was lost or a signal ended the command, run also waits for the
// rest of the group.
func (s *supervisor) run() outcome {
	s.begun = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	lost, unguarded := s.lease.Lost(), s.guarded.Done()
	for {
		// Check first whether the command has ended: if it ended by itself, it must not be treated as stopped.
		select {
		case e := <-s.child.events():
			s.handleEvent(e)
		default:
		}
		s.checkDeadlines()
		if s.done() {
			return outcome{s.code, s.stopping, s.signaled, s.interrupt}
		}
		timer.Reset(s.pause())
		s.child.renewed() // after pause: the guard must know the deadline on which the pause is based
		select {
		case e := <-s.child.events():
			s.handleEvent(e)
		case sig := <-s.signals:
			s.handleSignal(sig)
		case <-lost:
			lost = nil // checkDeadlines handles the loss
		case <-unguarded:
			unguarded = nil
			if !s.stopping {
				s.stop(context.Cause(s.guarded))
			}
		case <-timer.C:
		}
	}
}

func (s *supervisor) handleEvent(e childEvent) {
	switch {
	case e.stopped == nil:
		s.exited, s.code = true, e.code
		s.signaled = s.endedBySignal(e)
		s.interrupt = s.interruptedBy(e)
		if reason := s.lossReason(); reason != nil && !s.stopping {
			s.stop(fmt.Errorf("%w while the command ran", reason)) // the processes that it left must end too
		}
	case s.stopping:
	case s.child.stopped(e.stopped):
		s.resumeAt = time.Now().Add(resumeAfter)
		s.child.suspend()
	}
}

// endedBySignal reports whether the command has ended because of a signal, passed on by us or sent by its terminal. If
// the signal requests the end of every program, the exit code does not matter, because a program may handle the signal.
func (s *supervisor) endedBySignal(e childEvent) bool {
	return e.signal != nil && slices.Contains(signalsOfTerminal, e.signal) ||
		slices.ContainsFunc(s.passed, func(sig os.Signal) bool {
			return sig == e.signal ||
				slices.Contains(signalsToEnd, sig)
		})
}

// interruptedBy returns the interrupt that ended the command.
func (s *supervisor) interruptedBy(e childEvent) interrupt {
	switch {
	case e.signal != os.Interrupt:
		return noInterrupt
	case slices.Contains(s.passed, e.signal):
		return ownInterrupt
	case e.ownTTY:
		return commandInterrupt
	}
	return noInterrupt
}

func (s *supervisor) handleSignal(sig os.Signal) {
	if sig != signalContinue {
		if ending(sig) {
			s.passed = append(s.passed, sig)
		}
		s.child.forward(sig)
		return
	}
	// This process may have been stopped for long, so check the clock first.
	s.checkDeadlines()
	if !s.stopping {
		s.resumeAt = time.Time{}
		s.child.resume()
	}
}

// checkDeadlines checks the clock and the lease, and stops, kills or continues the command if that is due.
func (s *supervisor) checkDeadlines() {
	if s.exited && !s.stopping && !s.keepsLockForGroup {
		return
	}
	now := time.Now()
	if !s.foreign && !now.Before(s.foreignDue) {
		s.checkForeign(now)
	}
	switch left := s.lease.Deadline().Sub(now); {
	case s.stopping:
	case s.lossReason() != nil:
		s.stop(s.lossReason())
	case left <= s.grace+killMargin(s.ttl):
		s.stop(s.noRenewal(left))
	case !s.resumeAt.IsZero() && !now.Before(s.resumeAt):
		s.resumeAt = time.Time{}
		s.child.resume()
	}
	if (s.stopping || s.keepsLockForGroup) && !s.killed && !now.Before(s.killAt) {
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

// checkForeign reports once that the group has processes that only another user can stop. The first checks are
// frequent, because sudo takes a moment to change the user.
func (s *supervisor) checkForeign(now time.Time) {
	s.foreignPause = min(max(2*s.foreignPause, foreignFirst), foreignLast)
	s.foreignDue = now.Add(s.foreignPause)
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

// lossReason returns why the lease has ended, nil if it has not.
func (s *supervisor) lossReason() error {
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

// stop sends SIGTERM and schedules SIGKILL: before the deadline, unless that has passed.
func (s *supervisor) stop(why error) {
	s.stopping = true
	now := time.Now()
	deadline := s.lease.Deadline()
	killAt := now.Add(min(s.grace, lateGrace))
	if left := deadline.Sub(now); left > 0 {
		killAt = now.Add(min(s.grace, left-killMargin(s.ttl)))
	}
	if !s.keepsLockForGroup || killAt.Before(s.killAt) && !s.killed {
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
	case !s.stopping && !s.signaled, s.child.groupEnded():
		return true
	}
	if !s.stopping && !s.keepsLockForGroup {
		s.keepsLockForGroup, s.killAt = true, time.Now().Add(s.grace)
	}
	// Wait for such a process: no next holder may run beside it while we have the lock. After a loss we wait too.
	s.foreignRemains = s.child.foreign()
	if !s.foreignRemains && s.killed && time.Since(s.killAt) > killPatience {
		s.say("some processes of the command have been killed but have not ended yet")
		return true
	}
	return false
}

// pause returns how long run may wait for an event until something is due.
func (s *supervisor) pause() time.Duration {
	switch {
	case s.foreignRemains:
		return foreignFirst
	case s.keepsLockForGroup && !s.stopping:
		return restPoll
	case s.stopping && s.exited:
		return groupPoll
	case s.stopping && s.killed:
		return killPatience // only the end of the command is pending
	case s.stopping:
		return time.Until(s.killAt)
	}
	next := time.Until(s.lease.Deadline()) - s.grace - killMargin(s.ttl)
	if !s.foreign {
		next = min(next, time.Until(s.foreignDue))
	}
	if !s.resumeAt.IsZero() {
		next = min(next, time.Until(s.resumeAt))
	}
	return next
}
