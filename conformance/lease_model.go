package conformance

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// What a store does to a key, in an order that porcupine looks for. Porcupine is a linearizability checker after G. Lowe,
// "Testing for linearizability", 2017.
type leaseStep int

const (
	stepGrant  leaseStep = iota // the key is given to an owner
	stepEnd                     // the owner's lease ends: by release, expiry or loss
	stepRenew                   // the owner's lease is prolonged
	stepRefuse                  // an attempt is refused because the key is held
)

// A leaseOp is one step. When it may have been made is the interval of its porcupine.Operation: for what was answered, from
// call to answer; for the end of a lease that nobody released, from the holder's deadline to the last instant at which the
// store may refuse the key. The model itself therefore needs no clock.
type leaseOp struct {
	step  leaseStep
	key   string
	owner string
	token uint64 // of a grant
	how   string // of an end: "released", "expired", …
}

// A leaseState is what the store keeps of a key in between.
type leaseState struct {
	holder string // empty: the key is free
	token  uint64 // the last one granted
}

// leaseModel is a store of leases: it grants a free key only, ends and renews the holder's lease only, refuses a held key
// only. With tokens, every grant's is higher than the one before.
func leaseModel(tokens bool) porcupine.Model {
	return porcupine.Model{
		Partition: partitionByKey,
		Init:      func() any { return leaseState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, op := state.(leaseState), input.(leaseOp)
			switch op.step {
			case stepGrant:
				return s.holder == "" && (!tokens || op.token > s.token), leaseState{op.owner, op.token}
			case stepEnd:
				return s.holder == op.owner, leaseState{"", s.token}
			case stepRenew:
				return s.holder == op.owner, s
			default:
				return s.holder != "", s
			}
		},
		DescribeOperation: func(input, _ any) string { return input.(leaseOp).String() },
		DescribeState:     func(state any) string { return state.(leaseState).String() },
	}
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
		return fmt.Sprintf("granted to %s, token %d", ofOwner(op.owner), op.token)
	case stepEnd:
		return fmt.Sprintf("%s by %s", op.how, ofOwner(op.owner))
	case stepRenew:
		return fmt.Sprintf("renewed by %s", ofOwner(op.owner))
	default:
		return fmt.Sprintf("refused to %s", ofOwner(op.owner))
	}
}

func (s leaseState) String() string {
	if s.holder == "" {
		return fmt.Sprintf("free, last token %d", s.token)
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
