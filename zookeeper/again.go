package zookeeper

import (
	"math"
	"sync"
)

// A client that locks the same key again and again need not read the queue each time. The number of a node tells how many
// were created in its container before. So if a client's node was the first in the queue, and is gone, and its next one
// has the next number, then nobody has come in between, and it is the first again.
//
// That holds in the same container only: in one that was removed and made anew, numbers begin anew. The zxids of both creates
// tell: each write has one of its own, so that there must be as many between them as it takes to come to that number.

// turns remembers the last places that this client had, and has left.
type turns struct {
	mu   sync.Mutex
	last map[string]turn // by container
}

// A turn is a place that was the first in its queue, and was given up.
type turn struct {
	number  int32
	czxid   uint64
	expects bool // the next number, as it came so the last time
}

const mostTurns = 4096

// left notes that n, whose turn it was, has been removed.
func (t *turns) left(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.last[n.dir]
	if t.last == nil || !known && len(t.last) >= mostTurns {
		t.last = make(map[string]turn)
	}
	t.last[n.dir] = turn{number: n.number, czxid: n.token, expects: before.expects}
}

// follows reports whether n, which was just created, is certainly the first in its queue.
func (t *turns) follows(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.last[n.dir]
	if known {
		before.expects = before.isBefore(n.number, n.token)
		t.last[n.dir] = before
	}
	return before.expects
}

// expects reports whether the next node in dir is likely to follow the last one.
func (t *turns) expects(dir string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[dir].expects
}

func (t turn) isBefore(number int32, czxid uint64) bool {
	const epoch = 32 // of the leader, in the upper bits
	if t.number < 0 || t.number == math.MaxInt32 || number != t.number+1 || czxid>>epoch != t.czxid>>epoch {
		return false
	}
	// Another container of that name would have taken: the removal of the last node, that of the container, and the creates
	// of as many nodes as the number tells, and of this one; the first of them may make the container, too.
	writes := uint64(number) + 3
	return czxid > t.czxid && czxid-t.czxid < writes
}
