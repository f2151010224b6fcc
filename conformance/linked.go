package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// linked opens a client behind a link of its own. At the end of the check, the link is healed before leases are
// released.
func (t *trial) linked() (backend.Backend, Link) {
	b, link, _ := t.linkedUntil()
	return b, link
}

// linkedUntil is linked for checks that need many such clients, one after the other. The last result closes the client
// and its link before the end of the check.
func (t *trial) linkedUntil() (backend.Backend, Link, func()) {
	begun := time.Now()
	b, link, err := t.h.Linked(t.ctx)
	if err != nil {
		t.lateOnTimeout(err, begun)
		t.fatalf("open a client behind a link: %v", err)
	}
	heal := sync.OnceFunc(link.Heal)
	end := sync.OnceFunc(func() {
		heal()
		if err := b.Close(); err != nil {
			t.errorf("Close of a client behind a link: %v", err)
		}
		link.Close()
	})
	t.cleanup(end)
	t.endsFault(heal)
	return b, link, end
}

// cuttable opens a client, and returns a function that breaks all of its connections.
func (t *trial) cuttable() (b backend.Backend, cut func()) {
	if t.h.Cut == nil {
		b, link := t.linked()
		return b, link.Cut
	}
	b = t.open()
	return b, func() { t.h.Cut(b) }
}

// process starts another process with a client; the process is killed at the end. On a busy machine the client may not
// open in time, so process makes up to three attempts.
func (t *trial) process(skew time.Duration) Process {
	const attempts = 3
	p, err := t.h.Process(t.ctx, skew)
	for n := 1; err != nil && n < attempts && t.ctx.Err() == nil; n++ {
		if skew != 0 && errors.Is(err, errors.ErrUnsupported) {
			t.skipf("%v", err)
		}
		t.notef("start another process: %v", err)
		p, err = t.h.Process(t.ctx, skew)
	}
	if err != nil {
		t.fatalf("start another process: %v", err)
	}
	t.endsWith(p)
	return p
}

// endsWith arranges for p to be killed at the end.
func (t *trial) endsWith(p Process) {
	kill := sync.OnceFunc(p.Kill)
	t.cleanup(kill)
	t.endsFault(kill)
}

// endsFault arranges for end to be called before the check's leases are released. end may be called twice.
func (t *trial) endsFault(end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, end)
}
