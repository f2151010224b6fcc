package redlock

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

var errOvertaken = errors.New("overtaken by a later renewal")

// A noQuorumError tells that too few nodes have done what was asked, and why.
type noQuorumError struct {
	quorum, nodes int
	names         []string
	errs          []error       // by node, nil for those that did
	left          time.Duration // until a quorum may have its vote, if that is all there is to wait for
}

func (r *Backend) noQuorum(errs []error) error {
	e := &noQuorumError{quorum: len(r.nodes)/2 + 1, nodes: len(r.nodes), errs: errs}
	for i, n := range r.nodes {
		e.names = append(e.names, n.name)
		// The round may have been over before this node could say again what is known of it.
		if barred := n.notReady(); errors.Is(errs[i], exchange.ErrNoAnswer) && errors.As(barred, new(*noVoteError)) {
			errs[i] = barred
		}
	}
	e.left = e.wait()
	return e
}

// wait is when so many nodes will have their vote that there is a quorum, 0 if other nodes than those without a vote are
// needed.
func (e *noQuorumError) wait() time.Duration {
	var lefts []time.Duration
	good := 0
	for _, err := range e.errs {
		var v *noVoteError
		switch {
		case err == nil:
			good++
		case errors.As(err, &v):
			lefts = append(lefts, v.left)
		}
	}
	if need := e.quorum - good; need > 0 && need <= len(lefts) {
		slices.Sort(lefts)
		return lefts[need-1]
	}
	return 0
}

// slow reports whether nodes were missed only because they did not answer in time, or because the connection broke that they were
// asked on, which says nothing of the next one.
func (e *noQuorumError) slow() bool {
	missed := 0
	for _, err := range e.errs {
		var held *backend.HeldError
		switch {
		case err == nil, errors.As(err, &held), errors.Is(err, errOvertaken):
		case isTimeout(err), errors.Is(err, errStuck), isBroken(err):
			missed++
		default:
			return false
		}
	}
	return missed > 0
}

// isBroken reports whether err is of a connection that was good and broke.
func isBroken(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func (e *noQuorumError) Error() string {
	s := fmt.Sprintf("no quorum of %d of %d nodes", e.quorum, e.nodes)
	for i, err := range e.errs {
		if err != nil {
			s += fmt.Sprintf("; %s: %v", e.names[i], err)
		}
	}
	return s
}

// Is makes a noQuorumError match ErrUnavailable: nobody knows whether the key is busy.
func (e *noQuorumError) Is(target error) bool { return target == backend.ErrUnavailable }

// A noVoteError tells that a node has no vote for some time.
type noVoteError struct {
	left time.Duration
	why  string
}

// Why a node has no vote.
const (
	whyYoung   = "it is new, or may have forgotten leases (" + paramMaxTTL + ")"
	whyForward = "its clock was set forward"
)

func (e *noVoteError) Error() string {
	return fmt.Sprintf("no vote until %s, for %v more: %s", time.Now().Add(e.left).Format(time.TimeOnly), e.left.Round(time.Millisecond), e.why)
}
