package redlock

import (
	"context"
	"slices"
)

// agreeOnToken returns the fencing token of an owner that has been elected.
//
// Each elector has stored its own number for the key, greater than its earlier numbers; usually it is the number that
// the owner proposed. The token is the greatest of these numbers. A quorum must store the token before the owner gets
// it. Then every later election has an elector that knows the token, and returns a greater number. docs/redlock.md has
// the proof.
func (e *election) agreeOnToken(ctx context.Context) (uint64, error) {
	var token uint64
	electors := e.electors()
	for _, i := range electors {
		token = max(token, e.votes[i].token)
	}
	stored := slices.DeleteFunc(electors, func(i int) bool { return e.votes[i].token < token })
	if len(stored) >= e.t.quorum {
		return token, nil
	}
	t := e.r.newTally()
	t.mayEnd = func() bool { return t.won() || t.cannotWin() }
	e.r.runRound(ctx, t, e.r.windowFor(e.c.ttl), func(i int, deliver deliverFunc) {
		if slices.Contains(stored, i) {
			deliver(nil, nil)
		} else {
			e.confirm(i, token, deliver)
		}
	})
	return token, e.r.quorumError(t)
}

// confirm raises the counter of node i to token, after the node's vote if that request is still in progress.
func (e *election) confirm(i int, token uint64, deliver deliverFunc) {
	q := confirmScript.Request(e.c.keys[:2], e.c.id, token, e.number)
	e.c.inOrder(i, func() {
		e.r.nodes[i].postBool(q, func(has bool, err error) {
			e.c.requestEnded(i)
			if err == nil && !has {
				err = errMissing // the key has expired since the vote
			}
			deliver(nil, err)
		})
	})
}
