// Package conformance checks that a [backend.Backend] keeps the rules of package backend, whether it is ours or yours.
//
// A store's own test is a few lines:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, func(t *testing.T) conformance.Harness {
//			return conformance.Harness{Open: func(ctx context.Context) (backend.Backend, error) {
//				return mystore.Dial(ctx, address)
//			}}
//		})
//	}
//
// Every check has a name, the rule it proves, and what it needs: a guarantee of the store, or a hook of the [Harness]
// that causes a failure. A check whose need is not met is skipped with the reason. Each check uses fresh random keys
// and two independent clients, so that checks can run in parallel, even on a store that others use. Only
// KeysThatLookAlike also holds a few keys that cannot be fresh, such as ".", "7" and "*", for a moment.
//
// # What a failure means
//
// Checks rely on what the contract guarantees, not on how fast a machine usually is: a lease counts as live until its
// Deadline, and an attempt counts as refused too late only if it was sent after the last moment at which the store may
// refuse. If an attempt was too late to prove anything (a lease ran out before it could be checked), the check is
// repeated with longer TTLs. If every attempt sees the same, or if the machine was not slow in the last one, that is a
// failure. Otherwise the status is [NoVerdict]: nothing wrong was shown. Every failure is a bug in the store, or a
// promise in its [backend.Guarantees] that it does not keep. The reverse does not hold: races may go unseen in one run.
// Run the suite often, with -race.
//
// A check that does not end within its time limit, which follows from MinTTL and MaxLate, has failed. Once a check has
// failed, the whole suite is limited too: to 90 seconds and 30 times MinTTL and MaxLate, with more for Members. When
// failed checks have taken 4/9 of that, or three checks ran into their time limit, the rest is skipped and
// [Result].Interrupted is set. So the suite ends within two minutes on a store that breaks every rule, if its leases
// are short.
//
// # Fake time
//
// [RunInBubble] runs the suite of a store in memory in a bubble of [testing/synctest]: in seconds, whatever else the
// machine does. It does not replace [Run] for races between threads, because few requests overlap in fake time.
//
// docs/write-a-backend.md leads from nothing to a passing suite.
package conformance

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// A Harness gives the suite access to one store. Only Open is required. The hooks cause faults; a check that needs a
// nil hook is skipped. Hooks are called one at a time, while no other check runs on this store, except Evict, which
// touches one key and may be called at any time.
type Harness struct {
	// Open returns a new client of the same store, independent of the ones before: its own connections, its own state.
	// The suite closes it.
	Open func(ctx context.Context) (backend.Backend, error)

	// Evict makes the store forget the lease on key, as an operator's delete or an eviction would: if readers share the
	// key, all of their leases. The holder's client is not notified. It proves what the store itself refuses, where a
	// client would refuse first.
	Evict func(ctx context.Context, key string) error

	// Freeze makes the store stop answering, connections staying open, as SIGSTOP does, and returns when it has
	// stopped. Thaw lets it go on with what it has received. Set both or none.
	Freeze func()
	Thaw   func()

	// Restart kills the store, and starts it again with the data that it keeps over a restart. It
	// returns when the store answers again. Where there is no server (a file), leave it nil: the suite reopens clients
	// in any case.
	Restart func()

	// RestartEmpty kills the store, and starts it again without its data, as when its disk was
	// lost or it keeps none. It returns when the store answers again.
	RestartEmpty func()

	// Fill leaves the store no room for anything new, like a memory limit or a full disk, and returns a function that
	// makes room again. What the store already has stays.
	Fill func() (empty func())

	// StepClock steps the wall clock of the store's servers by d, which is in whole seconds, at once; their monotonic
	// clocks go on as before. The suite steps it back at the end of a check.
	StepClock func(d time.Duration)

	// Footprint returns how many records the store keeps for all keys: rows, nodes, files or the like. The suite calls
	// it while no other check runs, and compares two counts: records that do not depend on leases may be counted or
	// not.
	Footprint func() (int64, error)

	// Linked opens a client that reaches the store through a link which the suite can break: see [Link]. Unlike other
	// hooks it may be called at any time.
	Linked LinkedFunc

	// Process starts another process with a client of the store, to be frozen and killed: see [Process]. Unlike other
	// hooks it may be called at any time.
	Process ProcessFunc

	// Cut breaks every connection that client has at the moment; the store goes on and new connections are accepted. A
	// harness with Linked needs none: there the link does it.
	Cut func(client backend.Backend)

	// Members are the servers of a cluster, any one of which may fail while the others serve. Each in turn is stopped,
	// frozen and emptied by the checks.
	Members []Member

	// Gather returns when all of Members take part again. It is called before each of them fails: a cluster that bears
	// the loss of one need not bear it while another, which serves again or was let go on, is still catching up. Nil
	// where that takes no time.
	Gather func()

	// Outage is how long the store may be without service after one of Members has failed, at most: an election, a
	// client's change to another server. Default 10 s. It must be less than Guarantees.MaxSilence, else no lease
	// outlives it.
	Outage time.Duration

	// ArrivalDelay is how long to wait for a request to have arrived in the store's queue, where Inspect does not count
	// waiters. Default 200 ms.
	ArrivalDelay time.Duration

	// Skip names checks that are not run, each with the reason: a documented limit of the store. Every report
	// reports them. A name that no check has is ErrInvalid.
	Skip map[string]string

	// Many is how many leases or waiters one client can have at once. The default is 256, 1100 for the one check of a
	// large batch, and less where Guarantees.MaxLeases or backend.Capacity say so.
	Many int

	// client is one of the store's, closed: it shows which optional interfaces they have. It is set when the suite begins.
	client backend.Backend
}

// A Member is one server of a cluster. Each hook returns when it is done; Start and StartEmpty when the member serves
// again. Freeze and Thaw go together and may be nil, where the store is known not to bear it; so may StartEmpty.
type Member struct {
	Freeze func() // stop it from running, connections staying open, as SIGSTOP does
	Thaw   func()
	Stop   func() // kill it
	Start  func() // start a stopped one, with what it keeps over a restart

	// StartEmpty starts a stopped one without its data, as when its disk was lost, by the steps that the store's manual
	// gives for that.
	StartEmpty func()
}

func (h Harness) withDefaults() Harness {
	if h.Outage <= 0 {
		h.Outage = 10 * time.Second
	}
	if h.Gather == nil {
		h.Gather = func() {}
	}
	if h.ArrivalDelay <= 0 {
		h.ArrivalDelay = 200 * time.Millisecond
	}
	return h
}

// A Check proves one rule.
type Check struct {
	Name  string // as in "StaleReleaseSparesNewHolder"
	Group string // of checks on one topic, as in "ownership"
	Rule  string // the rule of package backend, in a sentence
	Needs []Need // what must be there for the check to run

	// alone marks a check that makes faults, which others must not see.
	alone bool
	run   func(t *trial)
}

// Path is the name with the group's before it, as in "ownership/StaleReleaseSparesNewHolder".
func (c Check) Path() string { return c.Group + "/" + c.Name }

// Matches reports whether run matches the name of c, that of its group, or its path. Nil matches all.
func (c Check) Matches(run *regexp.Regexp) bool {
	return run == nil || run.MatchString(c.Name) || run.MatchString(c.Group) || run.MatchString(c.Path())
}

// A group is the checks on one topic.
type group struct {
	name   string
	checks []Check
}

// topic is the group of that name.
func topic(name string, checks ...[]Check) group {
	g := group{name, slices.Concat(checks...)}
	for i := range g.checks {
		g.checks[i].Group = name
	}
	return g
}

// groups are in the order in which they are reported, and begin: those that take long soon, those that make faults
// last.
func groups() []group {
	return []group{
		topic("guarantees", guaranteeChecks),
		topic("exclusion", exclusionChecks),
		topic("histories", historyChecks),
		topic(sharedGroup, sharedChecks()...),
		topic("crowds", crowdChecks, inFlightChecks, maxLeasesChecks),
		topic("ttl", ttlChecks, numberChecks, minTTLChecks),
		topic("ownership", ownershipChecks, likenessChecks, originChecks),
		topic("resume", resumeGroupChecks()),
		topic("renewal", renewalChecks, concurrentRenewalChecks, seriesChecks, batchChecks, batchFrameChecks),
		topic("loss", lossChecks, lossCallbackChecks, removedChecks),
		topic("waiting", waitingChecks, waitLateChecks, busyChecks, fifoChecks, longQueueChecks, queueEventChecks),
		topic("cancel", cancelChecks, underWayChecks, secondRenewalChecks),
		topic("tokens", tokenChecks),
		topic("keys", keyChecks, waitedKeyChecks, servedKeyChecks, collisionChecks, inputChecks),
		topic("inspect", inspectChecks, reservedChecks, operateChecks, operateEndedChecks, listChecks),
		topic("close", closeChecks, goroutineChecks, connectionChecks, lastingChecks),
		topic("evict", evictChecks),
		topic("cuts", cutChecks, cutRefusalChecks, concurrentReleaseChecks, disconnectedChecks, reconnectedChecks,
			strandedChecks),
		topic("late", replyChecks, lateChecks, lateRequestChecks),
		topic("partitions", partitionChecks, unreachableChecks),
		topic("processes", processChecks),
		topic("faults", faultChecks, restartChecks, restartDeadlineChecks, fullChecks, emptyChecks, clockStepChecks),
		topic("members", memberChecks),
	}
}

// Checks lists the checks in the order in which they are reported, group after group.
func Checks() []Check {
	var all []Check
	for _, g := range groups() {
		all = append(all, g.checks...)
	}
	return all
}
