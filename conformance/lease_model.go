package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// What a store does to a key, in an order that porcupine looks for. Porcupine is a linearizability checker after G.
// Lowe, "Testing for linearizability", 2017.
type leaseStep int

const (
	stepGrant  leaseStep = iota // the key is given to an owner, alone or beside others
	stepEnd                     // the owner's lease ends: by release, expiry or loss
	stepRenew                   // the owner's lease is prolonged
	stepRefuse                  // an attempt is refused because the key is held
)

// A leaseOp is one step. When it may have been made is the interval of its porcupine.Operation: for what was answered,
// from call to answer; for the end of a lease that nobody released, from the holder's deadline to the last instant at
// which the store may refuse the key. The model itself therefore needs no clock.
type leaseOp struct {
	step   leaseStep
	key    string
	owner  string
	shared bool
	token  uint64 // of the lease, in its grant and its end
	how    string // of an end: "released", "expired", …
}

// A leaseState is what the store keeps of a key in between.
type leaseState struct {
	holder  string // of the exclusive lease
	readers string // the owners of shared leases, in the order of their names, each with a NUL at its end
	token   uint64 // the highest of exclusive leases, and of shared ones that have ended
	shared  uint64 // the highest of shared leases
}

// leaseModel is a store of leases: it grants a free key, or a shared lease beside others; it ends and renews a holder's
// lease only; it refuses a key only if a lease that conflicts with the request holds it. With tokens, every grant's is
// higher than that of each lease before that it does not share the key with.
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

// with is s after a grant.
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

// without is s after the end of a lease.
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

// ofOwner is what people need of an owner: the beginning of its random part.
func ofOwner(owner string) string {
	const enough = 6
	return owner[:min(len(owner), enough)]
}

// An instant is the time since a history began, on the monotonic clock of the suite's process.
type instant = time.Duration
