package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A leaseStep is a kind of step that a store takes on a key. Porcupine searches for a valid order of the steps. It is a
// linearizability checker after G. Lowe, "Testing for linearizability", 2017.
type leaseStep int

const (
	stepGrant  leaseStep = iota // the key is granted to an owner, exclusively or shared
	stepEnd                     // the owner's lease ends: by release, expiry or loss
	stepRenew                   // the owner's lease is renewed
	stepRefuse                  // an attempt is refused because the key is held
)

// A leaseOp is one step. The interval of its porcupine.Operation bounds when the store may have made the step. For an
// answered request, the interval lasts from call to reply. If nobody released the lease, its end lies between the
// holder's deadline and the last instant at which the store may refuse the key. The model itself therefore needs no
// clock.
type leaseOp struct {
	step   leaseStep
	key    string
	owner  string
	shared bool
	token  uint64 // of the lease; used for its grant and its end
	how    string // how the lease ended: "released", "expired", …
}

// A leaseState is what the store knows about a key between two steps.
type leaseState struct {
	holder  string // owner of the exclusive lease, if any
	readers string // owners of shared leases, sorted, each followed by a NUL
	token   uint64 // highest token of exclusive leases and of ended shared leases
	shared  uint64 // highest token of shared leases
}

// leaseModel models a store of leases. The store grants a free key, or a shared lease beside other shared leases. It
// ends and renews only the holder's lease. It refuses a key only if a conflicting lease holds it. If tokens is set, a
// grant's token must be higher than those of all earlier leases, except leases that share the key with it.
func leaseModel(tokens bool) porcupine.Model {
	return porcupine.Model{
		Partition: partitionByKey,
		Init:      func() any { return leaseState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, op := state.(leaseState), input.(leaseOp)
			switch op.step {
			case stepGrant:
				return s.grants(op, tokens), s.with(op)
			case stepEnd:
				return s.holds(op), s.without(op)
			case stepRenew:
				return s.holds(op), s
			default:
				return s.holder != "" || s.readers != "" && !op.shared, s
			}
		},
		DescribeOperation: func(input, _ any) string { return input.(leaseOp).String() },
		DescribeState:     func(state any) string { return state.(leaseState).String() },
	}
}

// holds reports whether the owner of op holds a lease.
func (s leaseState) holds(op leaseOp) bool {
	if !op.shared {
		return s.holder == op.owner
	}
	return strings.Contains("\x00"+s.readers, "\x00"+op.owner+"\x00")
}

// grants reports whether the key may be granted to the owner of op.
func (s leaseState) grants(op leaseOp, tokens bool) bool {
	if s.holder != "" || s.readers != "" && !op.shared || s.holds(op) {
		return false
	}
	return !tokens || op.token > s.token && (op.shared || op.token > s.shared)
}

// with returns s after a grant.
func (s leaseState) with(op leaseOp) leaseState {
	if !op.shared {
		s.holder, s.token = op.owner, op.token
		return s
	}
	owners := append(strings.SplitAfter(s.readers, "\x00"), op.owner+"\x00")
	slices.Sort(owners)
	s.readers, s.shared = strings.Join(owners, ""), max(s.shared, op.token)
	return s
}

// without returns s after the end of a lease.
func (s leaseState) without(op leaseOp) leaseState {
	if !op.shared {
		s.holder = ""
		return s
	}
	s.readers = strings.TrimPrefix(strings.Replace("\x00"+s.readers, "\x00"+op.owner+"\x00", "\x00", 1), "\x00")
	s.token = max(s.token, op.token)
	return s
}

func partitionByKey(ops []porcupine.Operation) (parts [][]porcupine.Operation) {
	index := make(map[string]int)
	for _, op := range ops {
		key := op.Input.(leaseOp).key
		i, ok := index[key]
		if !ok {
			i = len(parts)
			index[key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

func (op leaseOp) String() string {
	switch op.step {
	case stepGrant:
		return fmt.Sprintf("granted to %s, token %d%s", ofOwner(op.owner), op.token, inMode(op.shared))
	case stepEnd:
		return fmt.Sprintf("%s by %s", op.how, ofOwner(op.owner))
	case stepRenew:
		return fmt.Sprintf("renewed by %s", ofOwner(op.owner))
	default:
		return fmt.Sprintf("refused to %s%s", ofOwner(op.owner), inMode(op.shared))
	}
}

func inMode(shared bool) string {
	if shared {
		return ", shared"
	}
	return ""
}

func (s leaseState) String() string {
	switch {
	case s.readers != "":
		owners := strings.Split(strings.TrimSuffix(s.readers, "\x00"), "\x00")
		for i, owner := range owners {
			owners[i] = ofOwner(owner)
		}
		return fmt.Sprintf("shared by %s, last token %d", strings.Join(owners, ", "), max(s.token, s.shared))
	case s.holder == "":
		return fmt.Sprintf("free, last token %d", max(s.token, s.shared))
	}
	return fmt.Sprintf("held by %s, token %d", ofOwner(s.holder), s.token)
}

// ofOwner shortens an owner, for people, to the beginning of its random part.
func ofOwner(owner string) string {
	const enough = 6
	return owner[:min(len(owner), enough)]
}

// An instant is the time since a history began, on the monotonic clock of the suite's process.
type instant = time.Duration
