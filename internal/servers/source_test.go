package servers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// child returns a command that runs one of this package's tests in its own process, with env added to the environment.
func child(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// nowhere returns the environment variables for a machine without Redis, with the given value of RequireEnv.
func nowhere(require string) []string { return []string{hiddenEnv + "=1", RequireEnv + "=" + require} }

func TestMissingServerSkips(t *testing.T) {
	out, err := child(t, "TestRedisFreezeAndThaw", nowhere("")...).CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"--- SKIP: TestRedisFreezeAndThaw", "no redis-server on this machine"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out)
	}
}

func TestMissingServerFailsWhenRequired(t *testing.T) {
	out, err := child(t, "TestRedisFreezeAndThaw", nowhere("1")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: TestRedisFreezeAndThaw") {
		t.Errorf("%v, output:\n%s", err, out)
	}
}

func TestRedisURLFromTheEnvironment(t *testing.T) {
	const url = "redis://example.test:1234/5"
	t.Setenv(RedisEnv, url)
	if got := RedisURL(t); got != url {
		t.Errorf("%s", got)
	}
}

func TestTakenPortIsGivenUp(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	g := redisKind.source(t)
	asked := 0
	g.port = func(t testing.TB) int {
		if asked++; asked == 1 {
			return taken.Addr().(*net.TCPAddr).Port
		}
		return freePort(t)
	}
	s := g.startRedis(t, redisSpec{})
	if s.Addr == taken.Addr().String() {
		t.Error("started on a port that is taken")
	}
	ask(t, s, "PING")
}

// A server of another process that replies on our address is not mistaken for our server.
func TestAnotherProcessIsNotReady(t *testing.T) {
	s := Redis(t)
	other := &Server{Addr: s.Addr, node: newProcess("/nonexistent", t.TempDir())}
	other.node.(*process).cmd = &exec.Cmd{Process: &os.Process{Pid: s.node.pid() + 1}}
	if err := (resp{}).ready(t.Context(), other); err == nil {
		t.Error("taken for ready")
	}
	if err := (resp{}).ready(t.Context(), s); err != nil {
		t.Errorf("the server itself: %v", err)
	}
}

func TestServerThatEndsIsReportedAtOnce(t *testing.T) {
	s := redisKind.source(t).server(t, redisSpec{options: []string{"--no-such-option", "1"}}.launch())
	start := time.Now()
	err := s.startAndWait()
	if err == nil || time.Since(start) > startTimeout/2 {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	if !strings.Contains(s.node.log(), "no-such-option") {
		t.Errorf("the log does not say why:\n%s", s.node.log())
	}
	if err := s.node.remove(); err != nil {
		t.Error(err)
	}
}

func TestKilledTestLeavesNoServer(t *testing.T) {
	if !diesWithParent {
		t.Skip("only Linux ties a child to its parent")
	}
	port := freePort(t)
	cmd := child(t, "None", portEnv+"="+strconv.Itoa(port))
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr := loopback(port)
	ready, cancel := context.WithTimeout(t.Context(), startTimeout)
	err := until(ready, nil, func(ctx context.Context) error { _, err := (resp{}).ask(ctx, addr, "PING"); return err })
	cancel()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("the child has started no server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ; ; time.Sleep(10 * time.Millisecond) {
		if _, err := (resp{}).ask(ctx, addr, "PING"); err != nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the server of a killed test still answers on %s", addr)
		}
	}
}

func TestPortsAreClaimed(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port := freePort(t)
		if seen[port] {
			t.Errorf("port %d twice", port)
		}
		seen[port] = true
	}
}
