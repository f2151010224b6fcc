package redlock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
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
	reports := make([]nodeReport, len(r.nodes))
	var nodes sync.WaitGroup
	for i, n := range r.nodes {
		nodes.Go(func() {
			report, err := exchange.Await(ctx, r.leases.Go, r.options.Timeout,
				func(ctx context.Context) (nodeReport, error) { return r.examineNode(ctx, n) })
			if err != nil {
				report.findings = []backend.Finding{kit.Unreachable(n.name, err)}
			}
			reports[i] = report
		})
	}
	nodes.Wait()
	if err := kit.ContextError(ctx, nil); err != nil {
		return nil, err
	}
	fleet := fleetReading{r: r}
	var all []backend.Finding
	for _, report := range reports {
		fleet.clocks = append(fleet.clocks, report.clock)
		all = append(all, report.findings...)
	}
	return append(kit.Apply(fleetRules, "", fleet), all...), nil
}

// A nodeReport is what Examine has found at a node.
type nodeReport struct {
	findings []backend.Finding
	clock    clockSample // zero if the node has not replied
}

func (r *Backend) examineNode(ctx context.Context, n *node) (nodeReport, error) {
	vote := r.handshake(n, r.options.Timeout, time.Now())
	reading, list, err := endpoint.Read(ctx, n.name, n.client)
	if err != nil {
		return nodeReport{}, err
	}
	if vote == nil {
		vote = n.notReady()
	}
	report := nodeReport{findings: append(list, kit.Apply(nodeRules, n.name, vote)...)}
	if !reading.Clock.IsZero() {
		report.clock = clockSample{reading.Clock.UnixMicro(), reading.Sent, reading.Received}
	}
	return report, nil
}
