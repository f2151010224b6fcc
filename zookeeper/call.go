package zookeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// The requests that a lock consists of go past the library: it passes each one from goroutine to goroutine, and knows no contexts,
// so that whoever waits for it needs another one. Here the caller writes, and the goroutine that reads the connection
// hands it the answer.

// A call is one such request.
type call struct {
	op   int32
	body []byte
	// late runs with an answer that nobody waited for any more. It must not block.
	late func(answer)

	answer chan answer // takes one

	// Guarded by wire.mu.
	taken     bool // the answer is in the channel, or will be
	forsaken  bool // nobody waits
	writtenAt time.Time
	size      int
}

// An answer is what a server said; or the error with which the connection ended, and then the outcome is unknown.
type answer struct {
	zxid uint64
	body []byte
	err  error
}

func newCall(op int32, body []byte) *call {
	return &call{op: op, body: body, answer: make(chan answer, 1)}
}

const (
	// The library's requests have the numbers below, see Write.
	firstXid = 1 << 30
	lastXid  = firstXid + 1<<29

	// So much on its way finds room in the buffers between here and a server that hangs: such a write does not block.
	mostAhead = 8 << 10
)

// post writes calls, in order and by one write. It is false if the connection cannot be written to, or has ended.
// Otherwise every call gets an answer.
func (w *wire) post(calls ...*call) bool {
	const head = 12
	size := 0
	for _, c := range calls {
		size += head + len(c.body)
	}
	p := make([]byte, 0, size)
	w.mu.Lock()
	if !w.shaken || w.ended {
		w.mu.Unlock()
		return false
	}
	now := time.Now()
	for _, c := range calls {
		if w.xid++; w.xid < firstXid || w.xid > lastXid {
			w.xid = firstXid
		}
		c.writtenAt, c.size = now, head+len(c.body)
		w.calls[w.xid] = c
		p = append(p, header(w.xid, c.op, len(c.body))...)
		p = append(p, c.body...)
	}
	w.ahead += size
	blocks := w.ahead > mostAhead
	w.mu.Unlock()
	if f := w.s.b.frame.Load(); f != nil {
		for _, c := range calls {
			(*f)(c.op)
		}
	}
	write := func() {
		if _, err := w.Conn.Write(p); err != nil {
			_ = w.Conn.Close() // whoever reads ends the calls
		}
	}
	if !blocks {
		write()
	} else if !w.s.b.calls.Background(write) {
		_ = w.Conn.Close()
	}
	return true
}

// answered hands the answer to the call that it is for. The caller holds w.mu.
func (c *call) answeredLocked(a answer) (after func()) {
	if c.forsaken {
		if c.late != nil {
			return func() { c.late(a) }
		}
		return nil
	}
	c.taken = true
	c.answer <- a
	return nil
}

// end answers all calls under way: the connection has ended.
func (w *wire) end() {
	var late []func()
	w.mu.Lock()
	w.ended = true
	for _, c := range w.calls {
		if f := c.answeredLocked(answer{err: zk.ErrConnectionClosed}); f != nil {
			late = append(late, f)
		}
	}
	w.calls = nil
	w.mu.Unlock()
	for _, f := range late {
		f()
	}
}

// Close ends the connection, and the calls on it.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.end()
	return err
}

// A posted is what became of calls that were written together.
type posted struct {
	s     *session
	w     *wire
	sent  time.Time // before they were written
	end   time.Time
	limit time.Duration
	grace time.Duration
}

// post writes calls on the connection of s, waiting for one if there is none. What takes longer than Options.Timeout is not
// waited for. An error tells that nothing was sent.
func (s *session) post(ctx context.Context, grace time.Duration, calls ...*call) (*posted, error) {
	const pause = 5 * time.Millisecond // the library is about to notice
	q := &posted{s: s, limit: s.b.options.Timeout, grace: grace}
	q.end = time.Now().Add(q.limit)
	for {
		if _, err := s.whenReady(ctx, q.end); err != nil {
			return nil, &notSent{err}
		}
		s.mu.Lock()
		q.w = s.wire
		s.mu.Unlock()
		q.sent = time.Now()
		if q.w.post(calls...) {
			return q, nil
		}
		if q.sent.After(q.end) {
			return nil, &notSent{errNoConnection}
		}
		if err := s.sleep(ctx, pause); err != nil {
			return nil, &notSent{err}
		}
	}
}

// wait returns the answer to c; or errNoAnswer, or ctx's error.
func (q *posted) wait(ctx context.Context, c *call) (answer, error) {
	t := time.NewTimer(time.Until(q.end))
	defer t.Stop()
	select {
	case a := <-c.answer:
		return a, a.err
	case <-t.C:
	case <-q.s.over:
		t.Reset(min(q.grace, time.Until(q.end))) // the connection is about to end
		select {
		case a := <-c.answer:
			return a, a.err
		case <-t.C:
		}
	case <-ctx.Done():
		t.Reset(min(q.grace, time.Until(q.end)))
		select {
		case a := <-c.answer:
			return a, a.err
		case <-t.C:
		}
	}
	q.w.mu.Lock()
	taken := c.taken
	c.forsaken = !taken
	q.w.mu.Unlock()
	if taken {
		a := <-c.answer
		return a, a.err
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return answer{}, err
	}
	if err := q.s.reason(); err != nil {
		return answer{}, err
	}
	return answer{}, fmt.Errorf("%w (%v)", errNoAnswer, q.limit.Round(time.Millisecond))
}

// replies are the errors of servers that tell something. No other one does.
var replies = map[int32]error{
	-8: zk.ErrBadArguments, -100: zk.ErrAPIError, -101: zk.ErrNoNode, -102: zk.ErrNoAuth, -103: zk.ErrBadVersion,
	-108: zk.ErrNoChildrenForEphemerals, -110: zk.ErrNodeExists, -111: zk.ErrNotEmpty, -112: zk.ErrSessionExpired,
	-114: zk.ErrInvalidACL, -115: zk.ErrAuthFailed,
}

func replyError(code int32) error {
	if code == 0 {
		return nil
	}
	if err := replies[code]; err != nil {
		return err
	}
	return fmt.Errorf("zookeeper answered with error %d", code)
}

// Bodies of calls, and what their answers hold.

func appendString(p []byte, s string) []byte {
	return append(be.AppendUint32(p, uint32(len(s))), s...)
}

func createCall(path string, data []byte, acl []zk.ACL) *call {
	const room = 64
	p := make([]byte, 0, len(path)+len(data)+room)
	p = appendString(p, path)
	p = append(be.AppendUint32(p, uint32(len(data))), data...)
	p = be.AppendUint32(p, uint32(len(acl)))
	for _, a := range acl {
		p = be.AppendUint32(p, uint32(a.Perms))
		p = appendString(p, a.Scheme)
		p = appendString(p, a.ID)
	}
	return newCall(opCreate, be.AppendUint32(p, zk.FlagEphemeralSequential))
}

func deleteCall(path string) *call {
	const anyVersion = 0xffffffff
	p := make([]byte, 0, len(path)+8)
	return newCall(opDelete, be.AppendUint32(appendString(p, path), anyVersion))
}

func childrenCall(dir string) *call {
	const noWatch = 0
	p := make([]byte, 0, len(dir)+5)
	return newCall(opChildren, append(appendString(p, dir), noWatch))
}

// children reads the answer to a childrenCall.
func (a answer) children() (names []string, err error) {
	const size = 4
	p := a.body
	if len(p) < size {
		return nil, errFrame
	}
	n := int(int32(be.Uint32(p)))
	if p = p[size:]; n > len(p)/size {
		return nil, errFrame
	}
	names = make([]string, 0, max(n, 0))
	for range n {
		name := framePath(p)
		if name == "" {
			return nil, errFrame
		}
		names = append(names, name)
		p = p[size+len(name):]
	}
	return names, nil
}

// askAgain makes a call that may be made twice, as it changes nothing: when a connection breaks under it, it is made on the
// next one.
func (s *session) askAgain(ctx context.Context, make func() *call) (answer, error) {
	const pause = 5 * time.Millisecond // the library is about to notice
	for end := time.Now().Add(s.b.options.Timeout); ; {
		c := make()
		q, err := s.post(ctx, 0, c)
		if err != nil {
			return answer{}, err
		}
		if q.end.After(end) {
			q.end = end
		}
		a, err := q.wait(ctx, c)
		if !isBroken(err) || time.Until(end) < pause {
			return a, err
		}
		if serr := s.sleep(ctx, pause); serr != nil {
			return a, serr
		}
	}
}
