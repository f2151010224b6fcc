//go:build unix

package queue

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
)

const serverAt = "QUEUE_SERVER_AT" // makes this program the server

// TestMain is another client, or the server, where the test has started this program for that.
func TestMain(m *testing.M) {
	process.Main(func(ctx context.Context, addr string) (backend.Backend, error) { return Open(ctx, addr) })
	if addr := os.Getenv(serverAt); addr != "" {
		serve(addr)
	}
	os.Exit(m.Run())
}

// serve is the server's process. It tells its address, and ends with the test, which is when nothing more can come from it.
func serve(addr string) {
	l, err := net.Listen("tcp", addr)
	// Another connection of this host may use the port for a moment.
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		l, err = net.Listen("tcp", addr)
	}
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(l.Addr().String() + "\n")
	go NewServer().Serve(l)
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// A serverProcess is a server that the suite kills, stops and starts again.
type serverProcess struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

func (p *serverProcess) start() {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), serverAt+"="+p.addr)
	p.cmd.Stderr = os.Stderr
	_, err := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err != nil || err2 != nil || p.cmd.Start() != nil {
		p.t.Fatal("the server does not start", err, err2)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.t.Fatal("the server does not serve: ", err)
	}
	p.addr = strings.TrimSpace(line) // the same the next time
}

func (p *serverProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *serverProcess) restart() {
	p.kill()
	p.start()
}

// freeze returns when the process has stopped.
func (p *serverProcess) freeze() {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	_, _ = syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
}

func (p *serverProcess) thaw() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// opened is a client of a server of its own.
func opened(t *testing.T) (*serverProcess, *Store) {
	server := &serverProcess{t: t, addr: "127.0.0.1:0"}
	server.start()
	t.Cleanup(server.kill)
	s, err := Open(t.Context(), server.addr)
	if err != nil {
		t.Fatal(err)
	}
	return server, s
}

func TestBreakAfterClose(t *testing.T) {
	_, s := opened(t)
	s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Break(ctx, "k", "owner"); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("Break after Close: %v, want ErrClosed", err)
	}
}

func TestCloseEndsBreak(t *testing.T) {
	server, s := opened(t)
	server.freeze()
	done := make(chan error, 1)
	go func() { done <- s.Break(t.Context(), "k", "owner") }()
	select {
	case err := <-done:
		t.Fatalf("Break while the server stands still: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	s.Close()
	if err := <-done; !errors.Is(err, backend.ErrClosed) {
		t.Errorf("Break that Close has ended: %v, want ErrClosed", err)
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		server := &serverProcess{t: t, addr: "127.0.0.1:0"}
		server.start()
		t.Cleanup(server.kill)
		admin, err := Open(t.Context(), server.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { admin.Close() })
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return Open(ctx, server.addr) },
			Evict: func(ctx context.Context, key string) error {
				h, err := admin.Inspect(ctx, key)
				if err != nil {
					return err
				}
				return admin.Break(ctx, key, h.Owner)
			},
			Freeze:       server.freeze,
			Thaw:         server.thaw,
			Restart:      server.restart, // the server keeps no data
			RestartEmpty: server.restart,
			StepClock: func(d time.Duration) {
				if _, err := admin.call(context.Background(), request{Op: "step", TTL: d}); err != nil {
					panic(err)
				}
			},
			Linked: link.Linked([]string{server.addr}, func(ctx context.Context, addrs []string) (backend.Backend, error) {
				return Open(ctx, addrs[0])
			}),
			Process: process.Self(server.addr),
		}
	})
}
