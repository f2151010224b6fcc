package redis

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// An election is one attempt of an owner to get its key from a quorum.
type election struct {
	r      *Redlock
	c      *claim
	number uint64
	sent   time.Time // before the first request
	window window
	t      *tally

	// By node, guarded by t.mu until ask has returned.
	votes []vote
	count []bool // which votes count

	doubtful bool // it was refused, but by so few nodes that the others, if they had answered, could have granted the key
}

func (r *Redlock) newElection(c *claim) *election {
	n := len(r.nodes)
	e := &election{
		r: r, c: c, number: c.number.Add(1), t: r.newTally(), window: r.windowFor(c.ttl),
		votes: make([]vote, n), count: make([]bool, n), sent: time.Now(),
	}
	// It fails as soon as no quorum is possible, but not before a quorum has answered: whether the key is held or the fleet
	// is down makes a difference to the caller.
	e.t.certain = func() bool {
		return e.electorate() >= e.t.quorum || e.t.hopeless() && e.t.answered() >= e.t.quorum
	}
	return e
}

// windowFor is the window of a request about a lease of ttl.
func (r *Redlock) windowFor(ttl time.Duration) window {
	return window{node: nodeTimeout(ttl), outage: r.options.Timeout}
}

// needing is the window of a request that goes on after a quorum has answered only if it needs the nodes that have not,
// because others have lost a lease of ttl: to give up would be to fail.
func (w window) needing(ttl time.Duration) window {
	const share = 4
	w.node = max(w.node, min(ttl/share, w.outage))
	return w
}

// ask asks node i for its vote.
func (e *election) ask(i int) (verdict, func(), error) {
	if !e.needs(i) {
		return none, nil, errStuck
	}
	v, err := e.vote(i)
	why := err
	if err == nil {
		why = e.r.judge(e.r.nodes[i], v)
	}
	answer := no
	switch {
	case err != nil:
		answer = none
	case why == nil:
		answer = yes
	}
	return answer, func() { e.votes[i], e.count[i] = v, why == nil }, why
}

// needs reports whether node i must be asked. One that hangs with many requests under way is left alone where the others
// suffice, and so costs nothing that lasts longer than the round.
func (e *election) needs(i int) bool {
	if !e.t.hangs[i] || !e.r.nodes[i].crowded() {
		return true
	}
	t := time.NewTimer(hungTime)
	defer t.Stop()
	select {
	case <-e.t.end:
		return false
	case <-e.t.all:
		return !e.t.enough()
	case <-t.C:
		return true
	}
}

// vote makes the request, a second time if the node had to be met first.
func (e *election) vote(i int) (v vote, err error) {
	n, r := e.r.nodes[i], e.r
	// It may stand behind the removal of what the attempt before has left, which a slow node takes its time for.
	err = e.c.write(n, i, e.number, n.limit, func() (trace, error) {
		begun := time.Now()
		if v, err = r.requestVote(n, e.c, e.number, e.sent); err != nil {
			return untold, err
		}
		if n.knows(v, begun) || r.acquaint(n, begun) != nil || v.what != voteStranger {
			return v.trace(), nil // judge tells what it is worth
		}
		v, err = r.requestVote(n, e.c, e.number, e.sent)
		return v.trace(), err
	})
	return v, err
}

// trace is what a vote tells of the owner's key at the node.
func (v vote) trace() trace {
	switch v.what {
	case voteGranted, voteLate:
		return present
	case voteHeld:
		return missing
	}
	return untold // refused before the node looked who holds it
}

// knows reports whether the node need not be met before its vote is judged.
func (n *node) knows(v vote, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return v.what != voteStranger && v.run == n.run && (n.outcast == nil || now.Sub(n.metAt) < outcastPause)
}

// outcastPause is how long a node that must not vote is left alone before it is looked at again.
const outcastPause = time.Second

func (r *Redlock) requestVote(n *node, c *claim, number uint64, at time.Time) (vote, error) {
	sent := time.Now()
	v, err := n.eval(redlockAcquire, c.keys, c.id, keepFor(c.ttl), number, at.UnixMicro(), r.options.MaxTTL.Milliseconds())
	if err != nil {
		return vote{}, err
	}
	return parseVote(v, sent, time.Now())
}

// judge says why a vote does not count, nil if it does.
func (r *Redlock) judge(n *node, v vote) error {
	jump := n.observe(v.clock, r.ban)
	run, outcast := n.standing()
	if v.what == voteGranted {
		n.bar(v.left)
	}
	switch {
	case v.what == voteHeld:
		return &backend.HeldError{Holder: v.holder}
	case v.what == voteDiffers:
		return r.agreed(v.max)
	case v.what == voteLate:
		return errOvertaken
	case v.what == voteStranger, v.run != run:
		return errors.New("its server has just been started again")
	case outcast != nil:
		return outcast
	case v.left > 0:
		return &noVoteError{left: v.left, why: whyYoung}
	}
	return jump
}

// electorate is the size of the largest set of counting votes from nodes whose clocks agree.
func (e *election) electorate() int { return len(e.electors()) }

func (e *election) electors() []int {
	var best []int
	for i := range e.votes {
		if !e.count[i] {
			continue
		}
		var set []int
		for k := range e.votes {
			if e.count[k] && e.votes[i].clock.agrees(e.votes[k].clock) {
				set = append(set, k)
			}
		}
		if len(set) > len(best) {
			best = set
		}
	}
	return best
}

// outcome is nil if the owner is elected.
func (e *election) outcome() error {
	electors := e.electors()
	for _, i := range electors {
		for _, k := range electors {
			if i < k && e.votes[i].run == e.votes[k].run {
				return fmt.Errorf("%s and %s are one server", e.r.nodes[i].name, e.r.nodes[k].name)
			}
		}
	}
	if len(electors) >= e.t.quorum {
		return nil
	}
	if held := e.held(); held != nil {
		return held
	}
	errs := e.t.silent()
	for i := range e.votes {
		if e.count[i] && !slices.Contains(electors, i) {
			errs[i] = fmt.Errorf("its clock differs from that of others by more than %v", fleetSkew)
		}
	}
	return e.r.noQuorum(errs)
}

// held is the refusal if a quorum has answered and some of it holds the key for another owner; nil otherwise. It names the
// owner that a quorum names: one that fewer do may have released the key, of which a slow node has not heard yet.
func (e *election) held() error {
	var named []backend.Holder
	others, barred := 0, 0 // that do not name a holder
	for i, err := range e.t.errs {
		var h *backend.HeldError
		switch {
		case errors.As(err, &h):
			named = append(named, h.Holder)
		case errors.As(err, new(*noVoteError)):
			barred++
		case e.count[i], errors.Is(err, errOvertaken):
			others++
		}
	}
	if len(named) == 0 || len(named)+others+barred < e.t.quorum {
		return nil
	}
	e.doubtful = len(named) <= e.t.n-e.t.quorum && barred == 0
	owners := make(map[string]int)
	for _, h := range named {
		if owners[h.Owner]++; owners[h.Owner] == e.t.quorum {
			h.Token = agreedToken(named, h.Owner, e.t.quorum)
			return &backend.HeldError{Holder: h}
		}
	}
	return &backend.HeldError{}
}
