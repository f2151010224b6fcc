package conformance

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anylock/lock/backend"
)

// A history records what racing goroutines saw, for porcupine (a linearizability checker after G. Lowe, "Testing for
// linearizability", 2017).
type history struct {
	begun time.Time

	mu  sync.Mutex
	ops []porcupine.Operation
}

// A mutexOp is one operation on the key.
type mutexOp struct {
	acquire bool
	owner   string
	token   uint64
}

// A mutexState is what the key must be in between.
type mutexState struct {
	holder string
	token  uint64
}

func newHistory() *history { return &history{begun: time.Now()} }

// now is the time since the history began, on the monotonic clock.
func (h *history) now() int64 { return int64(time.Since(h.begun)) }

func (h *history) granted(goroutine int, owner string, token uint64, called int64) {
	h.add(goroutine, mutexOp{true, owner, token}, called)
}

func (h *history) released(goroutine int, owner string, called int64) {
	h.add(goroutine, mutexOp{false, owner, 0}, called)
}

func (h *history) add(goroutine int, op mutexOp, called int64) {
	returned := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: goroutine, Input: op, Call: called, Return: returned})
}

// fencedMutex is a mutex whose grants carry increasing tokens. TTLs are so long that no lease expires on the way.
func fencedMutex(tokens bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return mutexState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, op := state.(mutexState), input.(mutexOp)
			if !op.acquire {
				return s.holder == op.owner, mutexState{token: s.token}
			}
			return s.holder == "" && (!tokens || op.token > s.token), mutexState{op.owner, op.token}
		},
		DescribeOperation: func(input, _ any) string {
			if op := input.(mutexOp); op.acquire {
				return fmt.Sprintf("acquire %.6s → token %d", op.owner, op.token)
			}
			return fmt.Sprintf("release %.6s", input.(mutexOp).owner)
		},
		DescribeState: func(state any) string {
			return fmt.Sprintf("held by %.6q, token %d", state.(mutexState).holder, state.(mutexState).token)
		},
	}
}

// checkHistory fails unless the history is one of a mutex with increasing tokens.
func (t *trial) checkHistory(h *history) {
	model := fencedMutex(t.g.Fencing > backend.FencingNone)
	const patience = 20 * time.Second
	verdict, info := porcupine.CheckOperationsVerbose(model, h.ops, patience)
	switch verdict {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		t.fatalf("no verdict on a history of %d operations within %v", len(h.ops), patience)
	}
	where := "(no picture: "
	f, err := os.CreateTemp("", "conformance-*.html")
	if err == nil {
		err = errors.Join(porcupine.Visualize(model, info, f), f.Close())
		where = "see " + f.Name()
	}
	if err != nil {
		where += err.Error() + ")"
	}
	t.fatalf("no order of these %d operations is one of a mutex with increasing tokens; %s", len(h.ops), where)
}

// A span is when a lease was certainly exclusive: from the return of Acquire to the deadline or the call of Release.
type span struct {
	owner    string
	token    uint64
	from, to time.Time
}

// checkSpans fails if two spans overlap, or tokens do not follow their order.
func (t *trial) checkSpans(spans []span) {
	slices.SortFunc(spans, func(x, y span) int { return x.from.Compare(y.from) })
	for i := 1; i < len(spans); i++ {
		x, y := spans[i-1], spans[i]
		if y.from.Before(x.to) {
			t.fatalf("%s was granted the key %v before the end of the lease of %s", y.owner, x.to.Sub(y.from), x.owner)
		}
		if t.g.Fencing > backend.FencingNone && y.token <= x.token {
			t.fatalf("token %d was granted after token %d", y.token, x.token)
		}
	}
}

// heldOrNil reports whether err is nil or ErrHeld.
func (t *trial) heldOrNil(err error) bool { return err == nil || errors.Is(err, backend.ErrHeld) }
