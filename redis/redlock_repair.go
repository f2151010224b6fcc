package redis

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// repair puts leases that were renewed back on the nodes that had lost them, in the background. They count there from the
// next renewal on: to count them at once would revive leases that have expired.
func (call *rollCall) repair() {
	byNode := make(map[int][]int)
	for k, nodes := range call.missing {
		if call.have[k] < call.t.quorum {
			continue
		}
		for _, i := range nodes {
			byNode[i] = append(byNode[i], k)
		}
	}
	for i, leases := range byNode {
		call.r.calls.Background(func() {
			for _, k := range leases {
				if call.r.isClosing() || call.repairAt(i, k) != nil {
					return // the next renewal finds it again
				}
			}
		})
	}
}

func (call *rollCall) repairAt(i, k int) error {
	c, n := call.claims[k], call.r.nodes[i]
	err := c.write(n, i, call.number[k], call.patience, func() (trace, error) {
		left := time.Until(backend.Deadline(call.sent, call.granted[k]))
		if left <= 0 {
			return untold, nil
		}
		v, err := n.eval(redlockRepair, c.keys[:2], c.id, keepFor(left), call.number[k], c.token)
		switch {
		case err != nil:
			return untold, err
		case v == int64(1):
			return present, nil
		case v == int64(0):
			return missing, nil
		}
		return untold, errReply(v)
	})
	if errors.Is(err, backend.ErrLost) { // it was released meanwhile
		return nil
	}
	return err
}
