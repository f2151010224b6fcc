// Package process starts other processes, each with a client of the store, which the suite of package conformance can
// freeze and kill. They run the test's own program.
//
// A store's test needs two things. Its TestMain calls Main, which serves the suite if the program was started for that:
//
//	func TestMain(m *testing.M) {
//		process.Main(func(ctx context.Context, address string) (backend.Backend, error) { return mystore.Dial(ctx, address) })
//		os.Exit(m.Run())
//	}
//
// Its harness starts the processes:
//
//	conformance.Harness{Process: process.Self(address), …}
//
// The processes communicate over the child's standard input and output, with one line of JSON for each request and
// reply. The child ends with its parent. What the child prints goes to its standard error, which is the parent's.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// variable makes a program serve. It holds the argument of Self.
const variable = "ANYLOCK_CONFORMANCE_PROCESS"

// Self returns a ProcessFunc that starts this program again, whose Main opens a client by arg: an address, for
// instance. Self returns nil on systems where a process cannot be frozen. The checks that need it are then skipped.
//
// A process with a wrong wall clock is available on linux/amd64 only; elsewhere the error matches
// errors.ErrUnsupported.
func Self(arg string) conformance.ProcessFunc {
	if !canFreeze {
		return nil
	}
	return func(ctx context.Context, skew time.Duration) (conformance.Process, error) {
		if _, child := os.LookupEnv(variable); child {
			return nil, errNoMain
		}
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(program, "-test.run=^$") // a test without Main ends, instead of starting itself forever
		cmd.Env = append(os.Environ(), variable+"="+arg)
		c, err := start(cmd, skew)
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			c.Kill()
			return nil, ctx.Err()
		case <-c.ended:
			return nil, errNoMain
		case err := <-c.ready:
			if err != nil {
				c.Kill()
				return nil, fmt.Errorf("in the process: %w", err)
			}
			if err := c.checkClock(ctx, skew); err != nil {
				c.Kill()
				return nil, err
			}
			return c, nil
		}
	}
}

var errNoMain = errors.New("the process does not serve: TestMain must call process.Main first")

// A child is a running process, as its parent sees it.
type child struct {
	cmd   *exec.Cmd
	ready chan error    // the result of opening the client
	ended chan struct{} // closed when the process has ended and every pending call has failed

	sending sync.Mutex
	out     *json.Encoder // to the child's input

	mu      sync.Mutex
	last    int64
	waiting map[int64]*call // by request ID; nil once the child has ended
}

// A call is a request that has no reply yet.
type call struct {
	begun  chan error // for an Acquire: receives nil once it has begun, or an error
	answer func(answer)
}

func start(cmd *exec.Cmd, skew time.Duration) (*child, error) {
	cmd.Stderr = os.Stderr
	dieWithParent(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &child{
		cmd: cmd, ready: make(chan error, 1), ended: make(chan struct{}),
		out: json.NewEncoder(in), waiting: make(map[int64]*call),
	}
	c.waiting[0] = &call{answer: func(a answer) { c.ready <- a.err() }} // no request precedes this reply
	if skew == 0 {
		err = cmd.Start()
	} else {
		err = startSkewed(cmd, skew)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		for in := json.NewDecoder(out); ; {
			var a answer
			if err := in.Decode(&a); err != nil {
				break // the process has ended, perhaps in the middle of a reply
			}
			c.deliver(a)
		}
		_ = cmd.Process.Kill() // in case it sent an invalid reply
		_ = cmd.Wait()
		c.failAll()
	}()
	return c, nil
}

// checkClock checks that the process's clock is off by skew, because replacing the clock depends on Go's runtime.
func (c *child) checkClock(ctx context.Context, skew time.Duration) error {
	if skew == 0 {
		return nil
	}
	before := time.Now()
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	if off := now.Sub(before); (off - skew).Abs() > time.Since(before)+2*time.Second {
		return fmt.Errorf("%w: the clock of a process is off by %v and not by %v", backend.ErrUnsupported, off, skew)
	}
	return nil
}

// deliver passes a reply to the call that waits for it.
func (c *child) deliver(a answer) {
	c.mu.Lock()
	w := c.waiting[a.ID]
	if !a.Begun {
		delete(c.waiting, a.ID)
	}
	c.mu.Unlock()
	switch {
	case w == nil:
	case a.Begun:
		w.begun <- nil
	default:
		w.answer(a)
	}
}

// failAll fails every pending call, because no reply can come any more.
func (c *child) failAll() {
	c.mu.Lock()
	rest := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	for _, w := range rest {
		select {
		case w.begun <- errEnded:
		default: // already begun, or no Acquire
		}
		w.answer(answer{Error: errEnded.Error()})
	}
}

var errEnded = errors.New("the process has ended")

// send sends a request. w receives the replies.
func (c *child) send(r request, w *call) error {
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return errEnded
	}
	c.last++
	r.ID = c.last
	c.waiting[r.ID] = w
	c.mu.Unlock()
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.out.Encode(r) // an error means that the process is ending, which fails every pending call
}

// call sends a request and waits for its reply.
func (c *child) call(ctx context.Context, r request) (answer, error) {
	got := make(chan answer, 1)
	if err := c.send(r, &call{answer: func(a answer) { got <- a }}); err != nil {
		return answer{}, err
	}
	select {
	case a := <-got:
		return a, a.err()
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// Acquire implements conformance.Process.
func (c *child) Acquire(r backend.Request) (<-chan conformance.ProcessGrant, error) {
	answered := make(chan conformance.ProcessGrant, 1)
	w := &call{begun: make(chan error, 1), answer: func(a answer) {
		g := conformance.ProcessGrant{Token: a.Token, Left: a.Left, Err: a.err()}
		if a.Clock > 0 {
			g.Looked = time.Now().Add(a.Clock - sharedClock())
		}
		answered <- g
	}}
	err := c.send(request{Op: opAcquire, Key: []byte(r.Key), Owner: []byte(r.Owner), TTL: r.TTL, Wait: r.Wait,
		Shared: r.Shared}, w)
	if err == nil {
		err = <-w.begun
	}
	return answered, err
}

// Renew implements conformance.Process.
func (c *child) Renew(ctx context.Context, owner string, ttl time.Duration) error {
	_, err := c.call(ctx, request{Op: opRenew, Owner: []byte(owner), TTL: ttl})
	return err
}

// Release implements conformance.Process.
func (c *child) Release(ctx context.Context, owner string) error {
	_, err := c.call(ctx, request{Op: opRelease, Owner: []byte(owner)})
	return err
}

// Lost implements conformance.Process.
func (c *child) Lost(ctx context.Context, owner string) (bool, error) {
	a, err := c.call(ctx, request{Op: opLost, Owner: []byte(owner)})
	return a.Lost, err
}

// Now implements conformance.Process.
func (c *child) Now(ctx context.Context) (time.Time, error) {
	a, err := c.call(ctx, request{Op: opNow})
	return a.Now, err
}

// Freeze implements conformance.Process.
func (c *child) Freeze() { freeze(c.cmd.Process) }

// Thaw implements conformance.Process.
func (c *child) Thaw() { thaw(c.cmd.Process) }

// Kill implements conformance.Process.
func (c *child) Kill() {
	_ = c.cmd.Process.Kill() // an error means that the process has ended
	<-c.ended
}
