package conformance

import (
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// mostHung is how many checks may hang before the rest is skipped: a store whose calls do not return would cost the
// time limit of every check.
const mostHung = 3

// A budget bounds the suite on a store that fails checks: it ends within two minutes where leases are short. Before
// the first failure nothing is limited: a correct store may be slow.
type budget struct {
	total time.Duration // that the whole suite may take once a check has failed
	fails time.Duration // that failed checks may take of it
	spent chan struct{} // closed when the suite is over

	mu     sync.Mutex
	begun  time.Time
	cost   time.Duration
	failed int
	hung   int
	why    error // set when spent is closed
}

// newBudget returns the budget of a suite that begins now. No check's time limit is longer than limit, unless its
// TTLs are stretched.
func newBudget(g backend.Guarantees, h Harness, limit time.Duration) *budget {
	const (
		usual   = 90 * time.Second
		leases  = 30 // that checks may wait for the end of, one after the other
		outages = 10 // for each member
	)
	wait := g.Round(g.MinTTL) + g.MaxLate
	total := max(usual+leases*wait+outages*time.Duration(len(h.Members))*h.Outage, limit)
	return &budget{total: total, fails: total * 4 / 9, spent: make(chan struct{}), begun: time.Now()}
}

// add counts a check that has failed or has no verdict, the time it needed, and whether it reached its time limit.
func (b *budget) add(cost time.Duration, hung bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed++; b.failed == 1 {
		time.AfterFunc(b.left(), func() { b.end("the suite has taken more than %v", b.total) })
	}
	b.cost += cost
	if hung {
		b.hung++
	}
	switch {
	case b.hung >= mostHung:
		b.endLocked("%d checks did not end within their time limit", b.hung)
	case b.cost > b.fails:
		b.endLocked("failed checks have taken more than %v", b.fails)
	}
}

func (b *budget) end(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLocked(format, args...)
}

func (b *budget) endLocked(format string, args ...any) {
	if b.why == nil {
		b.why = fmt.Errorf("%d checks have failed, and "+format, append([]any{b.failed}, args...)...)
		close(b.spent)
	}
}

// over returns why no further check is run, or nil.
func (b *budget) over() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// left is how much of the total is left.
func (b *budget) left() time.Duration { return time.Until(b.begun.Add(b.total)) }

// isWrong reports whether a check has failed.
func (b *budget) isWrong() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed > 0
}

// nextStretch is the stretch of the attempt that follows one with stretch n, which was too late. On a store that has
// failed a check there are only two attempts.
func (b *budget) nextStretch(n int) int {
	if b.isWrong() {
		return mostStretch
	}
	return 2 * n
}
