package conformance

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anylock/lock/backend"
)

// historyGuarantees are those of the store in the histories below. Its TTLs are 100 ms, and its deadlines 97 ms after
// the request. A lease that was granted or renewed by a reply at 0 is kept until 123 ms at the latest, because MaxLate
// is 20 ms.
var historyGuarantees = backend.Guarantees{
	MinTTL: 10 * ms1, Granularity: ms1, MaxLate: 20 * ms1, Fencing: backend.FencingRestart,
}

const ms1 = time.Millisecond

// held returns a lease on "k" that is requested at from, in ms, is granted at from+2, and expires.
func held(owner string, token uint64, from int) *leaseRecord {
	at := time.Duration(from) * ms1
	return &leaseRecord{key: "k", owner: owner, token: token, asked: at, granted: at + 2*ms1, ttl: 100 * ms1,
		deadline: at + 97*ms1,
		end:      endAbandoned}
}

func (l *leaseRecord) finished(how endOfLease, from, to int) *leaseRecord {
	l.end, l.releaseCalled, l.releaseReturned = how, time.Duration(from)*ms1, time.Duration(to)*ms1
	return l
}

func (l *leaseRecord) renewed(from, to int, ok bool) *leaseRecord {
	n := renewalRecord{time.Duration(from) * ms1, time.Duration(to) * ms1, 100 * ms1, ok}
	l.renewals = append(l.renewals, n)
	if ok {
		l.deadline = n.called + 97*ms1
	}
	return l
}

func (l *leaseRecord) answered(at int) *leaseRecord {
	l.granted = time.Duration(at) * ms1
	return l
}

func (l *leaseRecord) lostEarly(at int) *leaseRecord {
	l.lostAt = time.Duration(at) * ms1
	return l
}

func try(owner string, from, to int, refused bool) attemptRecord {
	return attemptRecord{key: "k", owner: owner, ttl: 100 * ms1, called: time.Duration(from) * ms1,
		returned: time.Duration(to) * ms1,
		refused:  refused}
}

func waited(owner string, from, to int) attemptRecord {
	a := try(owner, from, to, false)
	a.wait = true
	return a
}

func trouble(f faultRecord, from, to int) faultRecord {
	f.from, f.to = time.Duration(from)*ms1, time.Duration(to)*ms1
	return f
}

// TestLeaseModel has, for each rule, a history that keeps it and a history that breaks it.
func TestLeaseModel(t *testing.T) {
	type leases = []*leaseRecord
	type attempts = []attemptRecord
	type faults = []faultRecord
	const late = 20000 // in ms; early events no longer matter by then
	for _, c := range []struct {
		name string
		r    record
		ok   bool
	}{
		{"nothing", record{}, true},
		{"one after the other", record{leases: leases{
			held("a", 1, 0).finished(endReleased, 10, 12), held("b", 2, 11).finished(endReleased, 30, 32), held("c", 3, 40)}},
			true},

		{"two at once", record{leases: leases{
			held("a", 1, 0).finished(endReleased, 50, 52), held("b", 2, 10).finished(endReleased, 60, 62)}}, false},
		{"two at once, one leaves its lease", record{leases: leases{held("a", 1, 0), held("b", 2, 50)}}, false},
		{"granted while another is released", record{leases: leases{
			held("a", 1, 0).finished(endReleased, 50, 60), held("b", 2, 55).finished(endReleased, 70, 71)}}, true},

		{"granted before the deadline", record{leases: leases{held("a", 1, 0), held("b", 2, 94)}}, false},
		{"granted as of the deadline", record{leases: leases{held("a", 1, 0), held("b", 2, 95)}}, true},
		{"granted before the renewed deadline", record{leases: leases{
			held("a", 1, 0).renewed(50, 52, true), held("b", 2, 130)}}, false},
		{"granted as of the renewed deadline", record{leases: leases{
			held("a", 1, 0).renewed(50, 52, true), held("b", 2, 145)}}, true},
		{"granted before the deadline after a renewal of unknown outcome", record{leases: leases{
			held("a", 1, 0).renewed(50, 52, false), held("b", 2, 94)}}, false},
		{"granted as of the deadline after a renewal of unknown outcome", record{leases: leases{
			held("a", 1, 0).renewed(50, 52, false), held("b", 2, 95)}}, true},

		{"token the same", record{leases: leases{
			held("a", 7, 0).finished(endReleased, 10, 12), held("b", 7, 20).finished(endReleased, 30, 32)}}, false},
		{"token lower", record{leases: leases{
			held("a", 7, 0).finished(endReleased, 10, 12), held("b", 6, 20).finished(endReleased, 30, 32)}}, false},
		{"token lower after expiry", record{leases: leases{held("a", 7, 0), held("b", 6, 200)}}, false},
		{"token is 0", record{leases: leases{held("a", 0, 0)}}, false},
		{"token in the order of the store, not of the answers", record{leases: leases{
			held("a", 2, 0).answered(20).finished(endReleased, 22, 24), held("b", 1, 1).finished(endReleased, 10, 30)}}, true},
		{"token against the order of the store", record{leases: leases{
			held("a", 2, 0).answered(20).finished(endReleased, 22, 24), held("b", 1, 21).finished(endReleased, 25, 30)}}, false},

		{"stale release frees the next holder's key", record{leases: leases{
			held("a", 1, 0).finished(endUnsure, 130, 132), held("b", 2, 100), held("c", 3, 135)}}, false},
		{"stale release touches nobody", record{leases: leases{
			held("a", 1, 0).finished(endUnsure, 130, 132), held("b", 2, 100), held("c", 3, 198)}}, true},
		{"release of what had expired is nil",
			record{leases: leases{held("a", 1, 0).finished(endReleased, 140, 142), held("b", 2, 100)}}, false},
		{"release of unknown outcome was served", record{leases: leases{
			held("a", 1, 0).finished(endUnsure, 10, 30), held("b", 2, 12)}}, true},
		{"release of unknown outcome was served before it was called", record{leases: leases{
			held("a", 1, 0).finished(endUnsure, 10, 30), held("b", 2, 5)}}, false},

		{"renewed after another was in", record{leases: leases{
			held("a", 1, 0).renewed(130, 132, true).finished(endReleased, 140, 142),
			held("b", 2, 100).finished(endReleased, 110, 112)}}, false},
		{"renewed after the key must have been free", record{leases: leases{
			held("a", 1, 0).renewed(130, 132, true).finished(endReleased, 140, 142)}}, false},
		{"released after the key must have been free",
			record{leases: leases{held("a", 1, 0).finished(endReleased, 140, 142)}}, false},
		{"renewed in time", record{leases: leases{
			held("a", 1, 0).renewed(90, 92, true).finished(endReleased, 140, 142), held("b", 2, 141)}}, true},
		{"renewed after release", record{leases: leases{
			held("a", 1, 0).finished(endReleased, 10, 12).renewed(20, 22, true)}}, false},

		{"refused a held key", record{leases: leases{held("a", 1, 0)}, attempts: attempts{try("b", 50, 51, true)}}, true},
		{"refused a free key", record{attempts: attempts{try("b", 50, 51, true)}}, false},
		{"refused after release", record{leases: leases{held("a", 1, 0).finished(endReleased, 10, 12)},
			attempts: attempts{try("b", 13, 14, true)}}, false},
		{"refused during release", record{leases: leases{held("a", 1, 0).finished(endReleased, 10, 14)},
			attempts: attempts{try("b", 13, 15, true)}}, true},
		{"refused as late as may be", record{leases: leases{held("a", 1, 0)}, attempts: attempts{try("b", 125, 126, true)}},
			true},
		{"refused too late", record{leases: leases{held("a", 1, 0)}, attempts: attempts{try("b", 126, 127, true)}}, false},
		{"refused too late after a renewal", record{leases: leases{held("a", 1, 0).renewed(50, 52, true)},
			attempts: attempts{try("b", 176, 177, true)}}, false},
		{"refused while a renewal of unknown outcome may count",
			record{leases: leases{held("a", 1, 0).renewed(50, 52, false)},
				attempts: attempts{try("b", 200, 201, true)}}, true},
		{"refused for good after a renewal of unknown outcome", record{leases: leases{held("a", 1, 0).renewed(50, 52, false)},
			attempts: attempts{try("b", 249, 251, true)}}, false},
		{"refused after a release that somebody else had before", record{
			leases:   leases{held("a", 1, 0).finished(endReleased, 10, 12), held("b", 2, 11).finished(endReleased, 14, 15)},
			attempts: attempts{try("c", 16, 17, true)}}, false},

		{"two refused at once, and nobody holds", record{attempts: attempts{try("a", 50, 52, true), try("b", 51, 53, true)}},
			true},
		{"refused beside one who waits", record{attempts: attempts{waited("a", 0, 60), try("b", 50, 51, true)}}, true},
		{"refused long after one who waited left",
			record{attempts: attempts{waited("a", 0, 60), try("b", late, late+1, true)}}, false},
		{"refused beside what an unknown attempt left",
			record{attempts: attempts{try("a", 0, 10, false), try("b", 50, 51, true)}}, true},
		{"refused after an unknown attempt's TTL",
			record{attempts: attempts{try("a", 0, 10, false), try("b", late, late+1, true)}}, false},
		{"refused after an unknown attempt's TTL, which a link held back", record{
			attempts: attempts{try("a", 0, 10, false), try("b", late, late+1, true)},
			faults:   faults{trouble(faultRecord{}, 5, late)}}, true},

		{"lost early, and notified", record{leases: leases{held("a", 1, 0).lostEarly(20), held("b", 2, 19)}}, true},
		{"lost early, and not notified", record{leases: leases{held("a", 1, 0), held("b", 2, 19)}}, false},
		{"killed", record{leases: leases{held("a", 1, 0).finished(endKilled, 20, 20), held("b", 2, 20)}}, true},
		{"granted before the holder was killed",
			record{leases: leases{held("a", 1, 0).finished(endKilled, 20, 20), held("b", 2, 10)}}, false},
		{"kept for ever after a kill", record{leases: leases{held("a", 1, 0).finished(endKilled, 20, 20)},
			attempts: attempts{try("b", 126, 127, true)}}, false},

		{"lost over a restart, as the store warns", record{leases: leases{held("a", 1, 0), held("b", 2, 30)},
			faults: faults{trouble(faultRecord{client: wholeStore, outage: true, forgets: true}, 10, 25)}}, true},
		{"lost before a restart", record{leases: leases{held("a", 1, 0), held("b", 2, 5)},
			faults: faults{trouble(faultRecord{client: wholeStore, outage: true, forgets: true}, 10, 25)}}, false},
		{"lost over a restart, against the promise", record{leases: leases{held("a", 1, 0), held("b", 2, 30)},
			faults: faults{trouble(faultRecord{client: wholeStore, outage: true}, 10, 25)}}, false},
		{"counted anew after a restart", record{leases: leases{held("a", 1, 0)}, attempts: attempts{try("b", 145, 146, true)},
			faults: faults{trouble(faultRecord{client: wholeStore, outage: true}, 10, 25)}}, true},
		{"kept for ever after a restart", record{leases: leases{held("a", 1, 0)},
			attempts: attempts{try("b", 249, 250, true)},
			faults:   faults{trouble(faultRecord{client: wholeStore, outage: true}, 10, 25)}}, false},
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

// TestLeaseModelWithoutTokens accepts grants whose tokens do not increase.
func TestLeaseModelWithoutTokens(t *testing.T) {
	r := record{leases: []*leaseRecord{held("a", 0, 0).finished(endReleased, 10, 12), held("b", 0, 20)}}
	if !porcupine.CheckOperations(leaseModel(false), r.operations(historyGuarantees)) {
		t.Error("refused")
	}
}

// TestLeaseModelKeysAreIndependent accepts leases on two keys at once.
func TestLeaseModelKeysAreIndependent(t *testing.T) {
	other := held("b", 1, 0)
	other.key = "other"
	r := record{leases: []*leaseRecord{held("a", 1, 0), other}}
	if !porcupine.CheckOperations(leaseModel(true), r.operations(historyGuarantees)) {
		t.Error("refused")
	}
}
