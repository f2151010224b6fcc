package redlock

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

var (
	errLate = errors.New("the vote request came too late")
	// errNeedsHandshake means that a vote request was not sent, or that the node refused it before it could write the key.
	errNeedsHandshake = errors.New("its server has just been started again")
)

// A noQuorumError means that too few nodes have done what was requested, and why.
type noQuorumError struct {
	nodes  []*node
	quorum int
	errs   []error // by node; nil for nodes that did
}

func (r *Backend) noQuorum(errs []error) error {
	e := &noQuorumError{nodes: r.nodes, quorum: len(r.nodes)/2 + 1, errs: errs}
	for i, n := range r.nodes {
		barred := n.notReady()
		// The round may have ended before this node could repeat that it has no vote.
		early := errors.Is(errs[i], exchange.ErrNoAnswer) && errors.As(barred, new(*noVoteError))
		if early || barred != nil && errors.Is(errs[i], errNeedsHandshake) {
			errs[i] = barred
		}
	}
	return e
}

// mayPass reports whether a later attempt may get a quorum, because a quorum of the nodes has replied or, if slow is
// true, was only too slow or lost its connections.
func (e *noQuorumError) mayPass(slow bool) bool {
	able := 0
	for _, err := range e.errs {
		op, ok := errors.AsType[*net.OpError](err)
		isDown := ok && op.Op == "dial" && !isTimeout(err)
		isSlow := exchange.Passing(err) && !exchange.IsReply(err) && !isDown
		if verdictOf(err) != failed || slow && isSlow {
			able++
		}
	}
	return able >= e.quorum
}

func (e *noQuorumError) Error() string {
	s := fmt.Sprintf("no quorum of %d of %d nodes", e.quorum, len(e.nodes))
	for i, err := range e.errs {
		if err != nil {
			s += fmt.Sprintf("; %s: %v", e.nodes[i].name, err)
		}
	}
	return s
}

// Is makes a noQuorumError match ErrUnavailable, because it is unknown whether the key is held.
func (e *noQuorumError) Is(target error) bool { return target == backend.ErrUnavailable }

// A noVoteError means that a node has no vote for some time.
type noVoteError struct {
	until time.Time
	why   string
}

// Why a node has no vote.
const (
	whyYoung   = "it is new, or may have forgotten leases (" + paramMaxTTL + ")"
	whyForward = "its clock was set forward"
)

func (e *noVoteError) Error() string {
	return fmt.Sprintf("no vote until %s, for %v more: %s", e.until.Format(time.TimeOnly),
		max(time.Until(e.until), 0).Round(time.Millisecond), e.why)
}
