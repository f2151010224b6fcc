package redis

import "time"

// NotReady says why no key can be granted at the moment: too few nodes have a vote. The error matches [backend.ErrUnavailable] and names
// them, until when each has none and why. It is nil while a quorum may vote. It asks no server: it goes by what nodes have
// said last, on opening and since, so that it costs nothing and may be called at any time.
func (r *Redlock) NotReady() error {
	errs := make([]error, len(r.nodes))
	able := 0
	for i, n := range r.nodes {
		if errs[i] = n.notReady(); errs[i] == nil {
			able++
		}
	}
	if able > len(r.nodes)/2 {
		return nil
	}
	return r.noQuorum(errs)
}

// notReady says why the node has no vote, as far as is known.
func (n *node) notReady() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch young, jumped := time.Until(n.barred), time.Until(n.out); {
	case n.unmet != nil:
		return n.unmet
	case n.outcast != nil:
		return n.outcast
	case young > 0:
		return &noVoteError{left: young, why: whyYoung}
	case jumped > 0:
		return &noVoteError{left: jumped, why: whyForward}
	}
	return nil
}

// bar notes for how long the node says that it has no vote.
func (n *node) bar(left time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unmet, n.barred = nil, time.Now().Add(left)
}
