//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// messagesOf returns a pipe that contains text, and the end to write more.
func messagesOf(t *testing.T, text string) (messages, more *os.File) {
	t.Helper()
	messages, more, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = messages.Close()
		_ = more.Close()
	})
	if _, err := more.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return messages, more
}

func killAt(group int, at time.Duration) string { return fmt.Sprintln(group, int64(at)) }

// A guard that did not run for a while reads all messages before it kills a group whose deadline has passed.
func TestGuardReadsBeforeItKills(t *testing.T) {
	t.Parallel()
	past, later := monotonic()-time.Second, monotonic()+time.Hour
	for name, text := range map[string]string{
		"dismissed": killAt(7, past) + killAt(0, past),
		"renewed":   strings.Repeat(killAt(7, past), 1000) + killAt(7, later) + killAt(0, later),
	} {
		messages, more := messagesOf(t, text)
		_ = more.Close()
		if group := groupToKill(messages); group != 0 {
			t.Errorf("%s: kills %d", name, group)
		}
	}
}

// The guard kills the group at its deadline, or at the end of the messages.
func TestGuardKills(t *testing.T) {
	t.Parallel()
	const left = 50 * time.Millisecond
	messages, _ := messagesOf(t, killAt(7, monotonic()+left))
	begun := time.Now()
	if group := groupToKill(messages); group != 7 {
		t.Errorf("at the deadline: kills %d", group)
	}
	if took := time.Since(begun); took < left/2 {
		t.Errorf("kills after %v", took)
	}
	messages, more := messagesOf(t, killAt(7, monotonic()+time.Hour))
	_ = more.Close()
	if group := groupToKill(messages); group != 7 {
		t.Errorf("at the end: kills %d", group)
	}
}

// A renewalAfter is a lease that is renewed once, some time before its deadline.
type renewalAfter struct{ renewal, before, after time.Time }

func (l renewalAfter) Deadline() time.Time {
	if time.Now().Before(l.renewal) {
		return l.before
	}
	return l.after
}

func (l renewalAfter) Lost() <-chan struct{} { return nil }

// A guardedChild is a fakeChild with a real guard.
type guardedChild struct {
	*fakeChild
	guard *guard
}

func (c guardedChild) renewed() { c.guard.update() }

// A renewal shortly before the command would be stopped reaches the guard in time, however long the TTL is.
func TestGuardLearnsOfLateRenewal(t *testing.T) {
	t.Parallel()
	const ttl, left = time.Hour, 3 * time.Second
	g, err := startGuard(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer g.dismiss()
	now := time.Now()
	l := renewalAfter{now.Add(left / 4), now.Add(left), now.Add(ttl)}
	g.protect(ttl, l.Deadline)
	cmd := exec.Command("sleep", "3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.setGroup(cmd.Process.Pid)
	child := guardedChild{newFakeChild(), g}
	var command sync.WaitGroup
	command.Go(func() {
		_ = cmd.Wait()
		child.exit(cmd.ProcessState.ExitCode())
	})
	defer command.Wait()
	s := &supervisor{
		lease: l, child: child, ttl: ttl, guarded: g.context(), say: t.Logf, lastError: func() string { return "" },
	}
	if got := s.run(); got != (outcome{}) {
		t.Errorf("outcome %+v, want the command's own end", got)
	}
}
