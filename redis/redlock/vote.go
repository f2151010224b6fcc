package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// An election is one attempt of an owner to get its key from a quorum.
type election struct {
	r      *Backend
	c      *claim
	number uint64
	chosen uint64 // the token that the owner has chosen after an earlier election; 0 if there was none
	t      *tally // its begin is before the first request
	votes  []vote // by node; a vote counts if the node's verdict is yes
}

func (r *Backend) newElection(c *claim) *election {
	e := &election{r: r, c: c, number: c.number.Add(1), t: r.newTally(), votes: make([]vote, len(r.nodes))}
	// The election fails as soon as no quorum is possible, but not before a quorum has replied, because callers must be
	// able to distinguish a held key from a fleet that is down.
	e.t.mayEnd = func() bool {
		cannotWin := e.t.number(yes)+e.t.number(silent) < e.t.quorum
		return len(e.electors()) >= e.t.quorum || cannotWin && e.t.answered() >= e.t.quorum
	}
	return e
}

// requestVote requests the vote of node i.
func (e *election) requestVote(i int, deliver deliverFunc) {
	n := e.r.nodes[i]
	if n.isSkipped() {
		deliver(nil, errNotSent)
		return
	}
	e.sendVoteRequest(i, func(v vote, err error) {
		if err == nil {
			err = e.r.checkVote(n, v)
		}
		deliver(func() { e.votes[i] = v }, err)
	})
}

// sendVoteRequest sends the request. If the node needs a handshake first, sendVoteRequest makes one and sends the
// request again.
func (e *election) sendVoteRequest(i int, done func(vote, error)) {
	n := e.r.nodes[i]
	var v vote
	// The request may have to wait while a slow node removes the key of the previous attempt.
	e.c.write(n, i, e.number, func(ended func(bool, error)) {
		begun := time.Now()
		answered := func(a vote, err error) {
			v = a
			ended(a.result != voteHeld, err)
		}
		e.sendOnce(n, func(a vote, err error) {
			shake := func(context.Context) {
				since := begun
				if n.lastHandshake().unfit != nil {
					since = begun.Add(-time.Second) // nobody waits for such a node: one handshake a second is enough
				}
				if e.r.handshake(n, n.limit, since) != nil {
					answered(a, err)
				} else {
					e.sendOnce(n, answered)
				}
			}
			if !errors.Is(err, errNeedsHandshake) || !e.r.leases.Go(shake) {
				answered(a, err)
			}
		})
	}, func(err error) { done(v, err) })
}

// sendOnce sends the request once.
func (e *election) sendOnce(n *node, done func(vote, error)) {
	sent, c := time.Now(), e.c
	known := n.lastHandshake()
	token := cmp.Or(e.chosen, uint64(e.t.begun.UnixMicro()))
	q := acquireScript.Request(c.keys, c.id, keepFor(c.ttl), e.number, token, e.chosen != 0, known.record, known.born,
		known.from, known.run)
	n.post(q, func(v any, err error) {
		if err != nil {
			done(vote{}, err)
			return
		}
		done(parseVote(v, sent, time.Now()))
	})
}

// checkVote returns why a vote does not count, or nil if it does.
func (r *Backend) checkVote(n *node, v vote) error {
	r.observe(n, v.clock)
	switch v.result {
	case voteHeld:
		if unfit := n.lastHandshake().unfit; unfit != nil { // its refusal may repeat that of another node
			return unfit
		}
		return &backend.HeldError{Holder: v.holder}
	case voteLate:
		return errLate
	}
	return n.noteVote(v.untilVote)
}

// electors returns the nodes of the largest set of counting votes whose clocks agree: each with the clock furthest
// behind, and so with each other.
func (e *election) electors() []int {
	var best []int
	for i, v := range e.t.verdicts {
		if v != yes {
			continue
		}
		set := make([]int, 0, len(e.votes))
		for k, v := range e.t.verdicts {
			if v == yes && e.votes[i].clock.trails(e.votes[k].clock) {
				set = append(set, k)
			}
		}
		if len(set) > len(best) {
			best = set
		}
	}
	return best
}

// run requests the votes of all nodes. It returns nil if the owner is elected.
func (e *election) run(ctx context.Context) error {
	e.r.runRound(ctx, e.t, e.r.windowFor(e.c.ttl), e.requestVote)
	electors := e.electors()
	if len(electors) >= e.t.quorum {
		return nil
	}
	if held := e.held(); held != nil {
		return held
	}
	errs := e.t.nodeErrors()
	for i, v := range e.t.verdicts {
		if v == yes && !slices.Contains(electors, i) {
			errs[i] = fmt.Errorf("its clock differs from that of others by more than %v", fleetSkew)
		}
	}
	return e.r.noQuorum(errs)
}

// held returns the refusal if a quorum has replied and some of its nodes hold the key for another owner, and otherwise
// nil. The refusal names an owner only if a quorum does: an owner that fewer nodes name may have released the key, and
// the release may not have reached a slow node yet.
func (e *election) held() error {
	var named []backend.Holder
	for _, v := range e.votes {
		if v.result == voteHeld {
			named = append(named, v.holder)
		}
	}
	if len(named) == 0 || e.t.answered() < e.t.quorum {
		return nil
	}
	h, by := e.t.holder(named)
	if by < e.t.quorum {
		h = backend.Holder{}
	}
	return &backend.HeldError{Holder: h}
}
