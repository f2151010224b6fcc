package conformance

import (
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// mostHung is how many checks may hang before the suite skips the rest. Otherwise a store whose calls do not return
// would use up the time limit of every check.
const mostHung = 3

// A budget limits the duration of the suite on a store that fails checks. If leases are short, the suite ends within
// two minutes. There is no limit before the first failure, because a correct store may be slow.
type budget struct {
	total time.Duration // time limit of the whole suite once a check has failed
	fails time.Duration // time limit of all failed checks together
	spent chan struct{} // closed when the suite is over

	mu     sync.Mutex
	begun  time.Time
	cost   time.Duration
	failed int
	hung   int
	why    error // set when spent is closed
}

// newBudget returns the budget of a suite that begins now. limit is the time limit of a check whose TTLs are not
// stretched.
func newBudget(g backend.Guarantees, h Harness, limit time.Duration) *budget {
	const (
		usual   = 90 * time.Second
		leases  = 30 // expiries that checks may wait for, one after the other
		outages = 10 // per member
	)
	wait := g.Round(g.MinTTL) + g.MaxLate
	total := max(usual+leases*wait+outages*time.Duration(len(h.Members))*h.Outage, limit)
	return &budget{total: total, fails: total * 4 / 9, spent: make(chan struct{}), begun: time.Now()}
}

// add counts a check that failed or has no verdict. cost is the time that the check took, and hung means that it
// reached its time limit.
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

// endReason returns why the remaining checks are skipped, or nil.
func (b *budget) endReason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// left returns how much of the total time remains.
func (b *budget) left() time.Duration { return time.Until(b.begun.Add(b.total)) }

// isWrong reports whether a check has failed.
func (b *budget) isWrong() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed > 0
}

// nextStretch returns the stretch of the next attempt, after an attempt with stretch n was too late. On a store that
// has failed a check, it returns the largest stretch, so that there is only one more attempt.
func (b *budget) nextStretch(n int) int {
	if b.isWrong() {
		return mostStretch
	}
	return 2 * n
}
