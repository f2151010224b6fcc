package bench

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Scenario is one way of using a store.
type Scenario struct {
	Name  string
	Title string
	Main  Measure // the measure to compare stores by

	slow  bool               // takes seconds: every other round is enough
	unfit func(Store) string // why a store cannot run it, or ""
	run   run
}

// Scenarios lists the scenarios, with the numbers of waiters in o.
func Scenarios(o Options) []Scenario { return selected(nil, o.withDefaults()) }

// The names of scenarios that may have a number, of waiters or of workers.
const (
	crowd = "waiters"
	many  = "distinct"
)

// selected returns the scenarios with these names, or all if names is empty.
func selected(names []string, o Options) []Scenario {
	all := []Scenario{
		{Name: "serial", Title: "One worker, its own key: acquire, release, again", Main: Rate, run: serial},
		{Name: "distinct", Title: "Many workers of one client, each with its own key", Main: Rate, run: distinct(0)},
		{Name: "hot-local", Title: "Many workers of one client, one key", Main: Rate, run: hotLocal},
		{Name: "hot-clients", Title: "Workers of several clients, one key", Main: Rate,
			run: hotClients(workersOfEach, time.Millisecond)},
		{Name: "hot-single", Title: "A worker in each of several clients, one key, released at once", Main: Rate,
			run: hotClients(1, 0)},
		{Name: "readers", Title: "Many readers of one client, one key", Main: Rate, run: readers},
		{Name: "readers-writer", Title: "A stream of readers of several clients; a writer's waits", Main: P99,
			run: readersWriter},
		{Name: "readers-writers", Title: "A writer in each client, beside readers; the writers' waits",
			Main: P99, run: readersWriters},
		{Name: "mixed", Title: "Workers of several clients, one key, nine of ten cycles read", Main: Rate, run: mixed},
		{Name: "hand-off", Title: "From Release's return to the next lease, in another client", Main: P50, run: handOff},
		{Name: "try", Title: "An attempt at a key that is held", Main: P50, run: try},
		{Name: "recovery", Title: "From the kill of a holder's process to the next owner's lease", Main: P50,
			slow: true, unfit: noChild, run: recovery},
		{Name: "held", Title: "Many leases held and renewed", Main: CPU, slow: true, run: held},
	}
	crowds := o.Waiters
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(s Scenario) bool { return !slices.Contains(names, s.Name) })
		crowds = numbered(names, crowd, o.Waiters)
		for _, n := range numbered(names, many, nil) {
			all = append(all, Scenario{
				Name:  many + "-" + strconv.Itoa(n),
				Title: strconv.Itoa(n) + " workers of one client, each with its own key", Main: Rate, run: distinct(n),
			})
		}
	}
	for _, n := range crowds {
		all = append(all, Scenario{
			Name:  crowd + "-" + strconv.Itoa(n),
			Title: "A key is released to " + strconv.Itoa(n) + " waiters: how fast they get it", Main: Rate, run: waiters(n),
		})
	}
	return all
}

// numbered returns the sizes of a scenario that names select: all sizes by the scenario's name, or one size, as in
// waiters-250.
func numbered(names []string, scenario string, all []int) (sizes []int) {
	for _, name := range names {
		if name == scenario {
			sizes = append(sizes, all...)
		}
		text, ok := strings.CutPrefix(name, scenario+"-")
		if n, err := strconv.Atoi(text); ok && err == nil && n > 0 {
			sizes = append(sizes, n)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

func scenarioNames() []string {
	var names []string
	for _, s := range selected(nil, Options{Waiters: []int{}}) {
		names = append(names, s.Name)
	}
	return append(names, crowd)
}

// in reports whether the scenario is measured in a round. The first round is 0.
func (s Scenario) in(round int) bool { return !s.slow || round%2 == 0 }

func noChild(s Store) string {
	if s.Child == "" {
		return "no other process can reach it"
	}
	return ""
}

// ttl returns the TTL of leases in scenarios without expiry.
func (t *trial) ttl() time.Duration {
	if t.TTL > 0 {
		return max(t.TTL, t.store.MinTTL)
	}
	return defaultTTL
}
