package redis

import (
	"context"

	"github.com/anylock/lock/backend"
)

// agree returns the fencing token of an owner that has been elected.
//
// Each elector has stored a number of its own for the key, greater than those before: the one that the owner proposed,
// mostly. The token is the greatest. It must be stored by a quorum before anyone hears of it: then every later election has
// an elector that knows it, and mints a greater one. docs/redlock.md has the proof.
func (e *election) agree(ctx context.Context) (uint64, error) {
	var token uint64
	electors := e.electors()
	for _, i := range electors {
		token = max(token, e.votes[i].token)
	}
	stored := make([]bool, len(e.votes))
	n := 0
	for _, i := range electors {
		if e.votes[i].token == token {
			stored[i] = true
			n++
		}
	}
	if n >= e.t.quorum {
		return token, nil
	}
	t := e.r.newTally()
	w := e.window.needing(e.c.ttl)
	w.hung = true // it was elected by votes that would be lost
	e.r.ask(ctx, t, w, func(i int) (verdict, func(), error) {
		if stored[i] {
			return yes, nil, nil
		}
		v, err := e.confirm(i, token)
		return v, nil, err
	})
	if err := backend.ContextError(ctx, nil); err != nil {
		return 0, err
	}
	if !t.won() {
		return 0, e.r.noQuorum(t.silent())
	}
	return token, nil
}

// confirm raises the counter of node i to token.
func (e *election) confirm(i int, token uint64) (verdict, error) {
	n := e.r.nodes[i]
	if err := e.c.enter(i, e.window.outage); err != nil { // behind the node's own vote, if that is still on its way
		return none, err
	}
	defer e.c.leave(i)
	v, err := n.eval(redlockConfirm, e.c.keys[:2], e.c.id, token, e.number)
	switch {
	case err != nil:
		return none, err
	case v == int64(1):
		return yes, nil
	case v == int64(0):
		return no, errMissing // its vote has expired meanwhile
	}
	return none, errReply(v)
}
