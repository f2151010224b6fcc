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
// KeysThatLookAlike also holds a few keys that cannot be fresh, such as ".", "7" and "tokens", for a moment.
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
// A check that does not end within its time limit, which depends on MinTTL and MaxLate, has failed. Once a check has
// failed, the whole suite has a time limit too: 90 seconds plus 30 times the sum of MinTTL and MaxLate, and more for
// Members. If failed checks have taken 4/9 of that, or three checks have reached their time limit, the rest is skipped
// and [Result].Interrupted is set. So the suite ends within two minutes on a store that breaks every rule, if its
// leases are short.
//
// # Fake time
//
// [RunInBubble] runs the suite of a store in memory in a bubble of [testing/synctest]: in seconds, whatever else the
// machine does. It does not replace [Run] for races between threads, because few requests overlap in fake time.
//
// docs/write-a-backend.md shows, step by step, how to write a store that passes the suite.
package conformance

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// A Harness gives the suite access to one store. Only Open is required. The hooks cause faults; a check that needs a
// nil hook is skipped. Hooks are called one at a time, while no other check runs on this store, with three exceptions:
// Evict, which affects only one key, Linked and Process may be called at any time.
type Harness struct {
	// Open returns a new client of the same store, independent of the ones before: its own connections, its own state.
	// ctx limits only the opening. The suite closes the client. It opens the first clients at the same moment, to see that
	// they create a new store once.
	Open func(ctx context.Context) (backend.Backend, error)

	// Evict makes the store forget the lease on key, as an operator's delete or an eviction would. If readers share the
	// key, the store forgets all of their leases. Evict itself does not notify the holder's client. The client's next
	// request then shows what the store itself refuses.
	Evict func(ctx context.Context, key string) error

	// Freeze makes the store stop answering while connections stay open, as SIGSTOP does. It returns when the store has
	// stopped. Thaw lets the store continue with the requests that it has received. Set both or neither.
	Freeze func()
	Thaw   func()

	// Restart kills the store, and starts it again with the data that it keeps across a restart. It returns when the store
	// answers again. If there is no server (a file), leave it nil: the suite reopens clients in any case.
	Restart func()

	// RestartEmpty kills the store, and starts it again without its data, as if its disk was lost or it keeps no data. It
	// returns when the store answers again.
	RestartEmpty func()

	// Fill leaves the store no room for new data, as a memory limit or a full disk does. It returns a function that makes
	// room again. Existing data stays.
	Fill func() (empty func())

	// StepClock steps the wall clocks of the store's servers by d at once. d is a whole number of seconds. The servers'
	// monotonic clocks must continue as before. The suite steps the wall clocks back at the end of a check.
	StepClock func(d time.Duration)

	// Footprint returns how many records the store keeps for all keys: rows, nodes, files or the like. The suite calls it
	// while no other check runs, and compares two counts. Records that do not depend on leases may be included.
	Footprint func() (int64, error)

	// Linked opens a client that reaches the store through a link that the suite can break: see [Link].
	Linked LinkedFunc

	// Process starts another process with a client of the store. The suite freezes and kills the process: see [Process].
	Process ProcessFunc

	// Cut breaks every connection that client has at the moment. The store continues to run and accepts new connections. A
	// harness with Linked needs no Cut, because the link breaks connections.
	Cut func(client backend.Backend)

	// Members are the servers of a cluster. Any one of them may fail while the others serve. The checks stop, freeze and
	// empty each of them in turn.
	Members []Member

	// Gather waits until all of Members take part in the cluster again. The suite calls it before it makes a member fail:
	// a cluster that survives the loss of one member may not survive it while another member is still catching up. Leave
	// it nil if members need no time to catch up.
	Gather func()

	// Outage is the longest time that the store may be unavailable after one of Members has failed: for an election, or
	// until clients have changed to another server. The default is 10 s. If Guarantees.MaxSilence is set, Outage must be
	// less, because otherwise no lease survives an outage.
	Outage time.Duration

	// ArrivalDelay is how long the suite waits for a request to reach the store's queue, if Inspect does not count
	// waiters. The default is 200 ms.
	ArrivalDelay time.Duration

	// Skip names checks that are not run, each with the reason: a documented limit of the store. Every report includes the
	// reasons. A name that no check has is ErrInvalid.
	Skip map[string]string

	// Many is how many leases or waiters one client can have at once. The default is 256, and 1100 in checks of a large
	// batch. It is lower if Guarantees.MaxLeases or backend.Capacity requires that.
	Many int

	// client is a client of the store that is closed. It shows which optional interfaces clients of the store implement.
	// newSuite sets it.
	client backend.Backend
}

// A Member is one server of a cluster. Each hook returns when it has taken effect; Start and StartEmpty return when the
// member serves again. Set both Freeze and Thaw, or neither. They, and StartEmpty, may be nil if the store is known not
// to survive that fault.
type Member struct {
	Freeze func() // stops the member while connections stay open, as SIGSTOP does
	Thaw   func()
	Stop   func() // kills the member
	Start  func() // starts a stopped member with the data that it keeps across a restart

	// StartEmpty starts a stopped member without its data, as if its disk was lost. It follows the steps that the store's
	// manual describes for that.
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
	Needs []Need // the conditions under which the check runs

	// alone marks a check that makes faults. No other check runs at the same time.
	alone bool
	// lasts is how long the check waits in any case, and lastsInBubble, unless 0, is the same in fake time. The check's time
	// limit is longer by that.
	lasts, lastsInBubble time.Duration
	run                  func(t *trial)
}

// Path returns the group and the name of the check, as in "ownership/StaleReleaseSparesNewHolder".
func (c Check) Path() string { return c.Group + "/" + c.Name }

// Matches reports whether run matches the name of c, the name of its group, or its path. A nil run matches every check.
func (c Check) Matches(run *regexp.Regexp) bool {
	return run == nil || run.MatchString(c.Name) || run.MatchString(c.Group) || run.MatchString(c.Path())
}

// A group is the checks on one topic.
type group struct {
	name   string
	checks []Check
}

// topic returns the group of that name with the given checks.
func topic(name string, checks ...[]Check) group {
	g := group{name, slices.Concat(checks...)}
	for i := range g.checks {
		g.checks[i].Group = name
	}
	return g
}

// groups returns the groups in the order in which they begin and are reported. Groups with long checks come early, and
// groups with checks that make faults come last.
func groups() []group {
	return []group{
		topic("guarantees", guaranteeChecks, readyChecks),
		topic("aged", agedChecks),
		topic("exclusion", exclusionChecks),
		topic("histories", historyChecks),
		topic(sharedGroup, sharedChecks()...),
		topic("crowds", crowdChecks, manyKeyChecks, inFlightChecks, maxLeasesChecks),
		topic("ttl", ttlChecks, numberChecks, minTTLChecks),
		topic("ownership", ownershipChecks, likenessChecks, originChecks),
		topic("resume", resumeGroupChecks()),
		topic("renewal", renewalChecks, concurrentRenewalChecks, seriesChecks, batchChecks, batchFrameChecks),
		topic("loss", lossChecks, lossCallbackChecks, removedChecks),
		topic("waiting", waitingChecks, tryChecks, waitLateChecks, busyChecks, fifoChecks, longQueueChecks,
			queueEventChecks),
		topic("cancel", cancelChecks, underWayChecks, secondRenewalChecks, joinedCallChecks),
		topic("tokens", tokenChecks),
		topic("keys", keyChecks, waitedKeyChecks, servedKeyChecks, collisionChecks, inputChecks),
		topic("inspect", inspectChecks, reservedChecks, operateChecks, operateRaceChecks, operateEndedChecks,
			listChecks),
		topic("close", closeChecks, calledAtCloseChecks, goroutineChecks, connectionChecks, lastingChecks),
		topic("evict", evictChecks),
		topic("cuts", cutChecks, cutRefusalChecks, cutBreakChecks, concurrentReleaseChecks, faultyHolderChecks,
			disconnectedChecks, reconnectedChecks, strandedChecks),
		topic("late", replyChecks, lateChecks, lateRequestChecks, slowRenewalChecks),
		topic("partitions", partitionChecks, unreachableChecks),
		topic("processes", processChecks, clockQueueChecks),
		topic("faults", silentStoreChecks, faultChecks, restartChecks, restartDeadlineChecks, fullChecks, emptyChecks,
			clockStepChecks),
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
