package conformance

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// reading is held for a shared lease.
func reading(owner string, token uint64, from int) *leaseRecord {
	l := held(owner, token, from)
	l.shared = true
	return l
}

func tryToRead(owner string, from, to int) attemptRecord {
	a := try(owner, from, to, true)
	a.shared = true
	return a
}

// TestLeaseModelOfReaders has, for each rule on shared leases, a history that keeps it and a history that breaks it.
func TestLeaseModelOfReaders(t *testing.T) {
	type leases = []*leaseRecord
	type attempts = []attemptRecord
	for _, c := range []struct {
		name string
		r    record
		ok   bool
	}{
		{"readers beside each other", record{leases: leases{reading("a", 1, 0), reading("b", 2, 10), reading("c", 3, 20)}},
			true},
		{"a writer beside a reader", record{leases: leases{reading("a", 1, 0), held("b", 2, 50)}}, false},
		{"a reader beside a writer", record{leases: leases{held("a", 1, 0), reading("b", 2, 50)}}, false},
		{"a writer after the first of two readers", record{leases: leases{
			reading("a", 1, 0).finished(endReleased, 10, 12), reading("b", 2, 5), held("c", 3, 20)}}, false},
		{"a writer after both readers", record{leases: leases{
			reading("a", 1, 0).finished(endReleased, 10, 12), reading("b", 2, 5).finished(endReleased, 14, 16), held("c", 3,
				20)}}, true},
		{"a writer as of the last deadline", record{leases: leases{reading("a", 1, 0), reading("b", 2, 20), held("c", 3,
			115)}}, true},
		{"a writer as of the first deadline", record{leases: leases{reading("a", 1, 0), reading("b", 2, 20), held("c", 3,
			100)}}, false},

		{"one of two readers is renewed", record{leases: leases{
			reading("a", 1, 0), reading("b", 2, 1).renewed(50, 52, true), held("c", 3, 120)}}, false},
		{"a reader is renewed after a writer was in", record{leases: leases{
			reading("a", 1, 0).renewed(130, 132, true), held("b", 2, 100).finished(endReleased, 140, 142)}}, false},
		{"a reader is renewed after its release", record{leases: leases{
			reading("a", 1, 0).renewed(30, 32, true).finished(endReleased, 10, 12), reading("b", 2, 5)}}, false},

		{"readers' tokens in any order", record{leases: leases{reading("a", 2, 0), reading("b", 1, 10)}}, true},
		{"a later reader's token is lower than one that has ended", record{leases: leases{
			reading("a", 2, 0).finished(endReleased, 10, 12), reading("b", 1, 20)}}, false},
		{"a reader's token is lower than a writer's before", record{leases: leases{
			held("a", 2, 0).finished(endReleased, 10, 12), reading("b", 1, 20)}}, false},
		{"a writer's token is lower than the highest reader's before", record{leases: leases{
			reading("a", 3, 0).finished(endReleased, 10, 12), reading("b", 1, 5).finished(endReleased, 10, 12), held("c", 2,
				20)}}, false},
		{"a writer's token is above all readers'", record{leases: leases{
			reading("a", 3, 0).finished(endReleased, 10, 12), reading("b", 1, 5).finished(endReleased, 10, 12), held("c", 4,
				20)}}, true},

		{"a writer is refused because of a reader", record{leases: leases{reading("a", 1, 0)}, attempts: attempts{try("b",
			50, 51, true)}}, true},
		{"a reader is refused because of a writer", record{leases: leases{held("a", 1, 0)}, attempts: attempts{tryToRead("b",
			50, 51)}}, true},
		{"a reader is refused because of a reader", record{leases: leases{reading("a", 1, 0)},
			attempts: attempts{tryToRead("b", 50, 51)}}, false},
		{"a writer is refused because of a reader that has expired", record{leases: leases{reading("a", 1, 0)},
			attempts: attempts{try("b", 200, 201, true)}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			verdict, _ := porcupine.CheckOperationsVerbose(leaseModel(true), c.r.operations(historyGuarantees), time.Minute)
			if verdict == porcupine.Unknown || (verdict == porcupine.Ok) != c.ok {
				t.Errorf("%s, want accepted %v", verdict, c.ok)
			}
		})
	}
}

// TestDoubleGrantOfReaders expects a double grant to be described for a writer beside a reader, but not for two
// readers.
func TestDoubleGrantOfReaders(t *testing.T) {
	readers := record{leases: []*leaseRecord{reading("a", 1, 0), reading("b", 2, 10)}}
	if double := readers.doubleGrant(); double != "" {
		t.Errorf("two readers: %s", double)
	}
	mixed := record{leases: []*leaseRecord{reading("a", 1, 0), held("b", 2, 10)}}
	if mixed.doubleGrant() == "" {
		t.Error("a writer beside a reader is not described")
	}
}

func TestSharedTokens(t *testing.T) {
	for _, c := range []struct {
		name   string
		shared bool
		token  uint64
		ok     bool
	}{
		{"a reader above a writer", true, 6, true},
		{"a reader below another one that lives", true, 7, true},
		{"a reader at a writer", true, 5, false},
		{"a writer above all", false, 9, true},
		{"a writer below a reader", false, 7, false},
	} {
		model := leaseState{token: 5, shared: 8, readers: "r\x00"}
		if !c.shared {
			model.readers = ""
		}
		if ok := model.grants(leaseOp{key: "k", owner: "o", shared: c.shared, token: c.token}, true); ok != c.ok {
			t.Errorf("%s: %v, want %v", c.name, ok, c.ok)
		}
	}
}
