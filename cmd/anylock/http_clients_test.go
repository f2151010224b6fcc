//go:build unix

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

const examplesHTTP = "../../examples/http"

// httpClients are programs that use the clients in examples/http. They acquire the lock $KEY of $URL $ROUNDS times, and
// call $RESOURCE/enter and $RESOURCE/leave while they hold it. If $HOLD is set, they hold the lock until they lose it,
// for up to a minute, and then print "lost". $TTL is then the TTL, in seconds.
var httpClients = []struct{ name, interpreter, program string }{
	{"python", "python3", `
import os, sys, time, urllib.request
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["EXAMPLES"])
import anylock
locks, key = anylock.Locks(os.environ["URL"]), os.environ["KEY"]
def call(what, token): urllib.request.urlopen(os.environ["RESOURCE"] + "/" + what + "?token=" + token).read()
if os.environ.get("HOLD"):
    lease = locks.acquire(key, ttl=float(os.environ["TTL"]))
    call("enter", lease.token)
    lease.lost.wait(60)
    try: lease.check()
    except anylock.Lost: print("lost")
    sys.exit()
for _ in range(int(os.environ["ROUNDS"])):
    with locks.acquire(key, ttl=6, wait=60) as lease:
        call("enter", lease.token)
        time.sleep(0.01)
        call("leave", lease.token)
`},
	{"node", "node", `
const { Locks, Lost } = await import(process.env.EXAMPLES + "/anylock.mjs");
const { URL: url, KEY: key, RESOURCE: resource, ROUNDS: rounds, HOLD: hold, TTL: ttl } = process.env;
const locks = new Locks(url);
const call = async (what, token) => (await fetch(resource + "/" + what + "?token=" + token)).text();
if (hold) {
  const lease = await locks.acquire(key, { ttl: 1000 * ttl });
  await call("enter", lease.token);
  await new Promise((done) => lease.signal.addEventListener("abort", done));
  try { lease.check(); } catch (e) { if (e instanceof Lost) console.log("lost"); }
  process.exit();
}
for (let i = 0; i < rounds; i++) {
  const lease = await locks.acquire(key, { ttl: 6000, wait: 60000 });
  await call("enter", lease.token);
  await new Promise((done) => setTimeout(done, 10));
  await call("leave", lease.token);
  await lease.release();
}
`},
	{"curl", "sh", `
lock="$EXAMPLES/anylock.sh"
enter='curl -sf "$RESOURCE/enter?token=$ANYLOCK_TOKEN"'
if [ -n "${HOLD:-}" ]; then
	ANYLOCK_TTL=$TTL "$lock" "$URL" "$KEY" sh -c "$enter; exec sleep 60"
	[ $? != 113 ] || echo lost
	exit
fi
for i in $(seq "$ROUNDS"); do
	ANYLOCK_TTL=6 "$lock" "$URL" "$KEY" sh -c "$enter; sleep 0.01; curl -sf \"\$RESOURCE/leave?token=\$ANYLOCK_TOKEN\"" || exit
done
`},
}

// A resource records who uses it, and any overlap of two users.
type resource struct {
	*httptest.Server
	entered chan string

	mu     sync.Mutex
	inside string
	last   uint64
	visits int
	wrong  []string
}

func newResource(t *testing.T) *resource {
	r := &resource{entered: make(chan string, 1000)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *resource) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	text := q.URL.Query().Get("token")
	token, err := strconv.ParseUint(text, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	wrong := func(format string, args ...any) { r.wrong = append(r.wrong, fmt.Sprintf(format, args...)) }
	switch {
	case err != nil:
		wrong("token %q", text)
	case q.URL.Path == "/leave" && r.inside != text:
		wrong("%s leaves, and %s is inside", text, r.inside)
	case q.URL.Path == "/leave":
		r.inside = ""
	case r.inside != "":
		wrong("%s enters while %s is inside", text, r.inside)
	case token <= r.last:
		wrong("token %d after %d", token, r.last)
	default:
		r.inside, r.last = text, token
		r.visits++
		r.entered <- text
	}
}

func (s *served) client(r *resource, program, interpreter, key string, env ...string) *exec.Cmd {
	s.t.Helper()
	path, err := exec.LookPath(interpreter)
	if err != nil {
		servers.Missing(s.t, "no %s on this machine: scripts/install-servers installs it", interpreter)
	}
	examples, err := filepath.Abs(examplesHTTP)
	if err != nil {
		s.t.Fatal(err)
	}
	args := map[string][]string{"node": {"--input-type=module", "-e"}}[interpreter]
	if args == nil {
		args = []string{"-c"}
	}
	cmd := exec.Command(path, append(args, program)...)
	cmd.Env = append(os.Environ(), append([]string{"URL=" + s.url, "RESOURCE=" + r.URL, "KEY=" + key, "EXAMPLES=" +
		examples}, env...)...)
	return cmd
}

// The clients exclude each other while the server is killed and restarted, and no client fails.
func TestHTTPClientsWithKills(t *testing.T) {
	storetest.Long(t, "kills the server while clients work")
	s, r := serveOn(t, fileURL(t.TempDir())), newResource(t)
	const rounds = 12
	var clients sync.WaitGroup
	for _, c := range httpClients {
		for range 2 {
			cmd := s.client(r, c.program, c.interpreter, "k", fmt.Sprintf("ROUNDS=%d", rounds))
			clients.Go(func() {
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", c.name, err, out)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	kills := 0
	for ; kills < 5 && !isOver(done); kills++ {
		// A killed server may leave an entry in the store's queue, which blocks other waiters for a while.
		for range 10 {
			select {
			case <-r.entered:
			case <-done:
			}
		}
		s.kill()
		s.start()
	}
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, wrong := range r.wrong {
		t.Error(wrong)
	}
	if want := 2 * rounds * len(httpClients); r.visits != want {
		t.Errorf("%d visits, want %d", r.visits, want)
	}
	t.Logf("%d visits, %d kills", r.visits, kills)
}

func isOver(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// A holding is a client that holds its lock until it loses it.
type holding struct {
	out     chan string // receives what the client printed, at its end
	entered time.Time
}

// hold starts a client that holds the key a/b, at URL url.
func (r *resource) hold(t *testing.T, i int, url string, ttl int) *holding {
	t.Helper()
	c := httpClients[i]
	s := &served{t: t, url: url}
	cmd := s.client(r, c.program, c.interpreter, "a%2Fb", "HOLD=1", fmt.Sprintf("TTL=%d", ttl))
	if c.interpreter != "sh" { // the shell client puts the key into the path as it is
		cmd.Env = append(cmd.Env, "KEY=a/b")
	}
	h := &holding{out: make(chan string, 1)}
	go func() {
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		h.out <- string(text)
	}()
	select {
	case <-r.entered:
	case text := <-h.out:
		t.Fatalf("not held: %s", text)
	}
	h.entered = time.Now()
	return h
}

// lost waits until the client has noticed the loss, and returns how long it took the lease for its own.
func (h *holding) lost(t *testing.T) time.Duration {
	t.Helper()
	if text := <-h.out; !strings.Contains(text, "lost") {
		t.Errorf("no loss noticed: %s", text)
	}
	return time.Since(h.entered)
}

// Each client notices that its lease was broken.
func TestHTTPClientsNoticeLoss(t *testing.T) {
	storetest.Long(t, "waits for renewals")
	t.Parallel()
	for i, c := range httpClients {
		t.Run(c.name, func(t *testing.T) {
			s := serveOn(t, fileURL(t.TempDir()))
			h := newResource(t).hold(t, i, s.url, 9)
			_, owner, _ := strings.Cut(s.want(200, "GET", "/v1/locks/a%2Fb", ""), `"owner":"`)
			owner, _, _ = strings.Cut(owner, `"`)
			s.want(204, "POST", "/v1/locks/a%2Fb/break?owner="+strings.ReplaceAll(owner, "~", "%7E"), "")
			t.Logf("noticed after %v", h.lost(t))
		})
	}
}

// If the server stops to reply, each client ends its work before the lease ends.
func TestHTTPClientsOfSilentServer(t *testing.T) {
	storetest.Long(t, "waits until leases end")
	t.Parallel()
	for i, c := range httpClients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serveOn(t, fileURL(t.TempDir()))
			const ttl = 30
			h := newResource(t).hold(t, i, s.url, ttl)
			if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			// The machine may stall for two seconds.
			if worked := h.lost(t); worked > (ttl+2)*time.Second {
				t.Errorf("worked for %v, with a TTL of %d s", worked, ttl)
			}
		})
	}
}

// If the deadline is much nearer than the TTL, as on ZooKeeper, each client renews its lease before the deadline.
func TestHTTPClientsRenewBeforeDeadline(t *testing.T) {
	storetest.Long(t, "waits for renewals")
	t.Parallel()
	for i, c := range httpClients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var renewals atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch q.Method {
				case http.MethodPut:
					fmt.Fprint(w, `{"token":"1","lease":"o~~x0123456789abcdef","deadline_ms":9000}`)
				case http.MethodPost:
					renewals.Add(1)
					w.WriteHeader(http.StatusGone) // so that the client ends
					fmt.Fprint(w, `{"code":"lost"}`)
				default:
					w.WriteHeader(http.StatusNoContent)
				}
			}))
			defer s.Close()
			held := newResource(t).hold(t, i, s.URL, 120).lost(t)
			if n := renewals.Load(); n != 1 {
				t.Errorf("%d renewals in %v", n, held)
			}
		})
	}
}

// runShellClient runs the client for the shell, and returns what the command printed and the exit code.
func runShellClient(t *testing.T, url, ttl, input string, command ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{examplesHTTP + "/anylock.sh", url, "k"}, command...)...)
	cmd.Env = append(os.Environ(), "ANYLOCK_TTL="+ttl)
	cmd.Stdin = strings.NewReader(input)
	text, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// The client for the shell refuses a TTL that is too short for it, and passes its input on to the command.
func TestShellClient(t *testing.T) {
	storetest.Long(t, "needs curl, which make test does not install")
	t.Parallel()
	s := serveOn(t, fileURL(t.TempDir()))
	for _, ttl := range []string{"0", "3", "5", "6.5", "x"} {
		if out, code := runShellClient(t, s.url, ttl, "", "echo", "started"); code != exitUsage || out != "" {
			t.Errorf("ANYLOCK_TTL=%s: exit %d, printed %q", ttl, code, out)
		}
	}
	for _, ttl := range []string{"6", "30"} {
		if out, code := runShellClient(t, s.url, ttl, "input", "cat"); code != 0 || out != "input" {
			t.Errorf("ANYLOCK_TTL=%s: exit %d, the command read %q", ttl, code, out)
		}
	}
}

// The client for the shell does not stop a command that runs for longer than the pause between renewals.
func TestShellClientRenews(t *testing.T) {
	storetest.Long(t, "waits for renewals")
	t.Parallel()
	s := serveOn(t, fileURL(t.TempDir()))
	if _, code := runShellClient(t, s.url, "12", "", "sleep", "13"); code != 0 {
		t.Errorf("exit %d", code)
	}
}
