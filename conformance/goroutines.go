package conformance

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var goroutineChecks = []Check{
	{
		Name: "CloseLeaksNoGoroutine",
		Rule: "rule 10: Close leaks nothing: after it, no goroutine is left that its client or one of its calls started",
		run:  closeLeaksNoGoroutine,
	},
	{
		Name: "LeasesCostNoGoroutines",
		Rule: "rule 10: held leases cost O(1) goroutines per process, also those that were waited for",
		run:  leasesCostNoGoroutines,
	},
	{
		Name: "EndedWaitsLeakNoGoroutine",
		Rule: "rule 10: a waiting Acquire that has ended leaves no goroutine behind",
		run:  endedWaitsLeakNoGoroutine,
	},
	{
		Name:  "CutWaitsLeakNoGoroutine",
		Rule:  "rule 10: a waiter whose connection breaks time after time leaves no goroutine behind each time",
		Needs: []Need{needsLinked},
		run:   cutWaitsLeakNoGoroutine,
	},
}

// labelName is the profiler label of a trial's goroutines. Goroutines inherit it from the one that starts them,
// so that a trial can distinguish its own from those of other checks in the same process.
const labelName = "anylock-conformance"

// goroutines counts the goroutines that bear label.
func goroutines(label string) int {
	n := 0
	for _, r := range goroutineRecords(label) {
		n += r.count
	}
	return n
}

type goroutineRecord struct {
	count int
	stack string
}

func goroutineRecords(label string) []goroutineRecord {
	var b bytes.Buffer
	const withLabels = 1 // the text form with labels; equal stacks are counted together
	_ = pprof.Lookup("goroutine").WriteTo(&b, withLabels)
	var records []goroutineRecord
	for _, text := range strings.Split(b.String(), "\n\n") {
		if !strings.Contains(text, strconv.Quote(label)) {
			continue
		}
		// The first record follows a line with the total.
		if head, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(head, "goroutine profile:") {
			text = rest
		}
		count, _, _ := strings.Cut(text, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			continue
		}
		records = append(records, goroutineRecord{n, text})
	}
	return records
}

// goroutineDump returns the stacks of the goroutines that bear label.
func goroutineDump(label string) string {
	var b strings.Builder
	for _, r := range goroutineRecords(label) {
		fmt.Fprintf(&b, "%s\n\n", r.stack)
	}
	return b.String()
}

// waitForGoroutines waits until this trial has at most most goroutines.
func (t *trial) waitForGoroutines(most int, what string) {
	var n int
	pause := 100 * time.Millisecond // grows, because counting stops the whole process for a moment
	for end := time.Now().Add(soon); ; pause *= 2 {
		if n = goroutines(t.label); n <= most {
			return
		}
		if time.Now().After(end) {
			break
		}
		time.Sleep(pause)
	}
	t.breaks(10, "%s: %d goroutines, want at most %d:\n%s", what, n, most, goroutineDump(t.label))
}

func closeLeaksNoGoroutine(t *trial) {
	before := goroutines(t.label)
	for range 3 {
		c := t.open()
		free, busy := t.newKey(), t.newKey()
		held := t.acquire(t.a, busy, t.long())
		own := t.acquire(c, free, t.long())
		w := t.wait(c, busy, t.long())
		t.arrived(busy, 1)
		t.refused(c, held)
		for _, way := range t.renewals() {
			for range 60 { // so many that a rare leak shows
				t.renewBy(own, t.long(), func() error { return way.renew(t.ctx, own, t.long()) })
			}
		}
		cancelled := t.wait(c, busy, t.long())
		t.arrived(busy, 2)
		cancelled.cancel()
		cancelled.fails(t, "cancelled Acquire")
		t.renew(held, t.long()) // otherwise a slow store may grant the key to w before Close
		if err := c.Close(); err != nil {
			t.fatalf("Close: %v", err)
		}
		w.fails(t, "Acquire waiting at Close")
		t.release(held)
	}
	// The goroutines of the first client were started before. Its pool may have grown by a few.
	const grown = 4
	t.waitForGoroutines(before+grown, "after closing 3 clients")
	for _, b := range []backend.Backend{t.a, t.b} {
		if err := b.Close(); err != nil {
			t.fatalf("Close: %v", err)
		}
	}
	t.waitForGoroutines(1, "after closing every client (one is the check's own)")
}

func leasesCostNoGoroutines(t *trial) {
	first := t.acquire(t.a, t.key, t.long())
	before := goroutines(t.label)
	n := t.h.Many - 1
	grants := make([]*grant, n)
	for i := range grants {
		if t.g.Shared && i%2 == 0 {
			grants[i] = t.read(t.a, t.newKey(), t.long())
		} else {
			grants[i] = t.acquire(t.a, t.newKey(), t.long())
		}
	}
	const most = 16
	if n < 2*most {
		t.skipf("too few leases (Harness.Many) to measure")
	}
	t.waitForGoroutines(before+most, fmt.Sprintf("%d more leases held", n))
	const grown = turns // goroutines of a connection pool
	waited := min(n, 4*most)
	t.inTurns(waited, func(i int) {
		t.release(grants[i]) // makes room
		grants[i] = t.waitedFor(t.long())
	})
	t.waitForGoroutines(before+most+grown, fmt.Sprintf("%d more leases held, of which %d were waited for", n, waited))
	for _, g := range grants {
		_ = g.Lost()
		if notifier, ok := g.Lease.(backend.LossNotifier); ok {
			notifier.OnLost(func() {})
		}
	}
	t.waitForGoroutines(before+most+grown, fmt.Sprintf("%d more leases held, with calls of Lost and OnLost", n))
	t.refused(t.b, first)
	t.inTurns(n, func(i int) { t.release(grants[i]) })
	t.waitForGoroutines(before+most+grown, fmt.Sprintf("%d leases released, after calls of Lost and OnLost", n))
}

func endedWaitsLeakNoGoroutine(t *trial) {
	held := t.acquire(t.a, t.key, t.long())
	t.wait(t.b, t.key, t.long()).cancelAndFail(t)
	before := goroutines(t.label)
	n := min(t.h.Many, 32)
	var waits []*waiting
	for i := range n {
		if t.g.Shared && i%2 == 0 {
			waits = append(waits, t.waitToRead(t.b, t.key, t.long()))
		} else {
			waits = append(waits, t.wait(t.b, t.key, t.long()))
		}
	}
	t.arrived(t.key, n)
	time.Sleep(t.h.ArrivalDelay / 4) // let each waiter start all the goroutines that it needs
	for _, w := range waits {
		w.cancelAndFail(t)
	}
	const most = 8
	t.waitForGoroutines(before+most, fmt.Sprintf("%d waits cancelled", n))
	t.release(held)
}

func cutWaitsLeakNoGoroutine(t *trial) {
	const cuts, most = 8, 16
	c, link := t.linked()
	t.usable(c)
	n := min(t.h.Many/2, 6)
	held := t.acquire(t.a, t.key, t.long())
	for i := range n {
		t.wait(c, t.key, t.long())
		t.arrived(t.key, i+1)
	}
	t.confirmQueued(t.key, n)
	cut := func() {
		link.Cut()
		t.usable(c)
		t.queuesAgain(t.key, n)
	}
	cut() // a reconnected client may keep more goroutines
	before := goroutines(t.label)
	for range cuts {
		cut()
	}
	t.waitForGoroutines(before+most, fmt.Sprintf("%d waiters, cut %d times", n, cuts))
	t.release(held)
}
