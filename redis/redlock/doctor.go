package redlock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
)

// A fleetReading is the known state of a fleet as a whole.
type fleetReading struct {
	r      *Backend
	clocks []clockSample // by node; zero for a node that has not replied
}

var fleetRules = []kit.Rule[fleetReading]{
	{Severity: backend.Critical, Code: "no-quorum", Found: func(f fleetReading) string {
		err := f.r.NotReady()
		return kit.When(err != nil, "%v", err)
	},
		Why: "nothing is granted",
		Set: "start the missing nodes, and wait for those that have no vote yet; for a new fleet, call Bootstrap"},
	{Severity: backend.Critical, Code: "clocks-apart", Found: func(f fleetReading) string {
		var apart []string
		for i, a := range f.clocks {
			for k, b := range f.clocks[:i] {
				if a.server != 0 && b.server != 0 && !a.trails(b) && !b.trails(a) {
					apart = append(apart, f.r.nodes[k].name+" and "+f.r.nodes[i].name)
				}
			}
		}
		return kit.When(len(apart) > 0, "more than %v: %s", fleetSkew, strings.Join(apart, ", "))
	},
		Why: "nodes whose clocks differ do not count together, so there may be no quorum", Set: "NTP on all nodes"},
}

// nodeRules are the rules for a node. They read why it has no vote: nil if it has one.
var nodeRules = []kit.Rule[error]{
	{Severity: backend.Warning, Code: "no-vote",
		Found: func(vote error) string { return kit.When(vote != nil, "%v", vote) },
		Why:   "until the node has a vote, every other node is needed",
		Set:   "wait; with appendfsync always, a restarted node need not wait"},
}

// Examine implements [backend.Examiner]. It inspects every node; a node that does not reply is a finding. Opening has
// already rejected an even number of nodes, fewer than three, and nodes that evict keys or are replicas.
func (r *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	return kit.Call(ctx, r.leases, nil, r.examine)
}

func (r *Backend) examine(ctx context.Context) ([]backend.Finding, error) {
	fleet := fleetReading{r: r, clocks: make([]clockSample, len(r.nodes))}
	found := make([][]backend.Finding, len(r.nodes))
	t := r.newTally()
	t.quorum = len(r.nodes) // wait for all nodes, for as long as the request timeout
	r.runRound(ctx, t, window{outage: r.options.Timeout}, r.onGoroutines(func(i int) (func(), error) {
		clock, list, err := r.examineNode(ctx, r.nodes[i])
		return func() { fleet.clocks[i], found[i] = clock, list }, err
	}))
	if err := kit.ContextError(ctx, nil); err != nil {
		return nil, err
	}
	for i, err := range t.nodeErrors() {
		if err != nil {
			found[i] = []backend.Finding{kit.Unreachable(r.nodes[i].name, err)}
		}
	}
	return append(kit.Apply(fleetRules, "", fleet), slices.Concat(found...)...), nil
}

// examineNode returns a node's clock, zero if TIME is not permitted, and the findings.
func (r *Backend) examineNode(ctx context.Context, n *node) (clock clockSample, list []backend.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	_ = r.handshake(n, r.options.Timeout, time.Now()) // notReady returns its error
	reading, list, err := endpoint.Read(ctx, n.name, n.client)
	if err != nil {
		return clock, nil, err
	}
	if !reading.Clock.IsZero() {
		clock = clockSample{reading.Clock.UnixMicro(), reading.Sent, reading.Received}
	}
	return clock, append(list, kit.Apply(nodeRules, n.name, n.notReady())...), nil
}
