package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	otherprocess "github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// childEnv makes the test binary run as a client process, which opens the URL, acquires the key, prints "held", and
// then only sleeps.
const childEnv = "ANYLOCK_POSTGRES_CHILD"

func TestMain(m *testing.M) {
	otherprocess.Main(func(ctx context.Context, url string) (backend.Backend, error) { return openURL(ctx, url) })
	if what := os.Getenv(childEnv); what != "" {
		child(strings.Fields(what))
		return
	}
	storetest.VerifyTestMain(servers.Sharing(m))
}

// The modes of a child's lease.
const (
	exclusiveChild = "exclusive"
	sharedChild    = "shared"
)

func child(args []string) {
	url, key := args[0], args[1]
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		panic(err)
	}
	b, err := openURL(context.Background(), url)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, backend.ErrUnavailable) && time.Now().Before(end); {
		b, err = openURL(context.Background(), url) // the machine is busy
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("open")
	r := waiting(key, ttl)
	r.Shared = args[3] == sharedChild
	if _, err := b.Acquire(context.Background(), r); err != nil {
		panic(err)
	}
	fmt.Println("held")
	time.Sleep(time.Minute) // sleeps: a process that lives until the test stops or kills it
}

// A process is a client in its own process, which is killed at the end of the test.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, url, key string, ttl time.Duration, mode string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %v %s", childEnv, url, key, ttl, mode))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	t.Cleanup(p.kill)
	p.says("open")
	return p
}

func (p *process) says(line string) {
	p.t.Helper()
	if !p.lines.Scan() || p.lines.Text() != line {
		p.t.Fatalf("the other process says %q, want %q", p.lines.Text(), line)
	}
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
