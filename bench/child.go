package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// childEnv makes a process hold a key and do nothing else.
const childEnv = "ANYLOCK_BENCH_HOLD"

// An order names the key that the child process holds.
type order struct {
	Store string // Store.Child
	Key   string
	TTL   time.Duration
}

// Main must be the first call of a program that measures recovery. open opens a store from its Store.Child. In a
// process that was started to hold a key, Main holds the key and never returns.
func Main(open func(child string) (Store, error)) {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	if err := hold(text, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hold holds a key until standard input ends.
func hold(text string, open func(child string) (Store, error)) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	s, err := open(o.Store)
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := s.Open(ctx, o.TTL)
	if err != nil {
		return err
	}
	if _, err := c.Acquire(ctx, o.Key); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A holder is a process that holds a key.
type holder struct {
	cmd   *exec.Cmd
	stdin io.Closer
	once  sync.Once
}

// startHolder starts this program as a child process that holds key.
func startHolder(ctx context.Context, store, key string, ttl time.Duration) (*holder, error) {
	text, err := json.Marshal(order{store, key, ttl})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &holder{cmd: exec.CommandContext(ctx, self)}
	h.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	h.cmd.Stderr = os.Stderr
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.stdin = stdin
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "held\n" {
		h.kill()
		return nil, fmt.Errorf("the process that was to hold a key said %q: %w", line, err)
	}
	return h, nil
}

// kill kills the process, as a crash would.
func (h *holder) kill() {
	h.once.Do(func() {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		_ = h.stdin.Close()
	})
}
