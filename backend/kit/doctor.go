package kit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// A Rule describes one problem to look for in T, the data read from a server.
type Rule[T any] struct {
	Severity       backend.Severity
	Code, Why, Set string
	Found          func(T) string // returns what was found, or "" if nothing is wrong
}

func (r Rule[T]) finding(where, found string) backend.Finding {
	return backend.Finding{Severity: r.Severity, Code: r.Code, Where: where, Found: found, Why: r.Why, Set: r.Set}
}

// When returns the text for Rule.Found: formatted by fmt.Sprintf if wrong is true, otherwise "".
func When(wrong bool, format string, args ...any) string {
	if !wrong {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// Apply returns the findings of rules for read, the data read from one server. where names the server, and is empty if
// there is only one.
func Apply[T any](rules []Rule[T], where string, read T) (list []backend.Finding) {
	for _, r := range rules {
		if found := r.Found(read); found != "" {
			list = append(list, r.finding(where, found))
		}
	}
	return list
}

// Findings returns, for Driver.Findings, a finding for each of rules, without what was found.
func Findings[T any](rules []Rule[T]) (list []backend.Finding) {
	for _, r := range rules {
		list = append(list, r.finding("", ""))
	}
	return list
}

// Findings that are possible on any store.
var (
	notExamined = Rule[error]{Severity: backend.Info, Code: "not-examined",
		Why: "only round trips were measured", Set: "nothing; the store does not implement backend.Examiner"}
	unseen = Rule[error]{Severity: backend.Info, Code: "unseen",
		Why: "a managed server or missing rights may hide something that would be a warning",
		Set: "grant the missing rights, or check the settings yourself"}
	unreachable = Rule[error]{Severity: backend.Warning, Code: "unreachable",
		Why: "if another server fails too, nothing may be granted", Set: "start it, or remove it from the URL"}
	clockSkew = Rule[error]{Severity: backend.Warning, Code: "clock-skew",
		Why: "one of the two clocks is wrong: if it is corrected in one step, expiries and tokens that follow that clock " +
			"shift by as much",
		Set: "NTP on both machines"}
	slowRoundTrip = Rule[error]{Severity: backend.Warning, Code: "slow-round-trip",
		Why: "a renewal and its retries have two thirds of the TTL: if requests are slow on a normal day, leases are " +
			"lost on a bad one",
		Set: "a longer TTL, or a store that is closer or less busy"}
)

// CommonFindings returns the findings that are possible on any store, without what was found.
func CommonFindings() []backend.Finding {
	return Findings([]Rule[error]{notExamined, unseen, unreachable, clockSkew, slowRoundTrip})
}

// Unseen returns a finding that names what could not be inspected.
func Unseen(where, what string, err error) backend.Finding {
	return unseen.finding(where, fmt.Sprintf("cannot examine %s: %v", what, err))
}

// Unreachable returns the finding for a server, one of several, that does not respond.
func Unreachable(where string, err error) backend.Finding {
	return unreachable.finding(where, err.Error())
}

// mostSkew is more than the difference that NTP leaves between the clocks of two machines.
const mostSkew = time.Second

// CompareClocks returns a finding if a server's clock differs from ours. server is the time that the server reported,
// rounded down to unit. sent and received are the times on our clock before the request and after the reply.
func CompareClocks(where string, server time.Time, unit time.Duration, sent, received time.Time) []backend.Finding {
	server, sent, received = server.Round(0), sent.Round(0), received.Round(0) // without the monotonic clocks
	off, direction := server.Sub(received), "ahead of"
	if behind := sent.Sub(server.Add(unit)); behind > off {
		off, direction = behind, "behind"
	}
	if off <= mostSkew {
		return nil
	}
	return []backend.Finding{clockSkew.finding(where, fmt.Sprintf("the server's clock is %s this machine's by %v",
		direction, off.Round(time.Millisecond)))}
}

// Examine returns the findings for a store and for locks of ttl on it, the worst first. It inspects key several times,
// to measure how long a request takes.
func Examine(ctx context.Context, b backend.Backend, key string, ttl time.Duration) ([]backend.Finding, error) {
	list := []backend.Finding{notExamined.finding("", "the store cannot be examined")}
	if e, ok := b.(backend.Examiner); ok {
		var err error
		if list, err = e.Examine(ctx); err != nil {
			return nil, err
		}
	}
	const trips, share = 10, 20
	ttl = b.Guarantees().Round(ttl)
	var slowest time.Duration
	for i := range trips + 1 {
		begun := time.Now()
		if _, err := b.Inspect(ctx, key); err != nil {
			return nil, err
		}
		if i > 0 { // the first request may open a connection
			slowest = max(slowest, time.Since(begun))
		}
	}
	if slowest > ttl/share {
		list = append(list, slowRoundTrip.finding("",
			fmt.Sprintf("the slowest of %d reads of a key took %v, more than a twentieth of the TTL of %v",
				trips, slowest.Round(10*time.Microsecond), ttl)))
	}
	slices.SortStableFunc(list, func(a, b backend.Finding) int { return int(b.Severity - a.Severity) })
	return list, nil
}
