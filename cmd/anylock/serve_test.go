//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A served is one "anylock serve" in its own process.
type served struct {
	t    *testing.T
	cmd  *exec.Cmd
	args []string
	url  string
	log  *os.File
}

// serveOn starts a server. Without --listen the server gets a free port, which it keeps when it is restarted.
func serveOn(t *testing.T, storeURL string, args ...string) *served {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "serve.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, args: append([]string{"serve", "--backend", storeURL, "--listen", "127.0.0.1:0"}, args...),
		log: log}
	s.start()
	t.Cleanup(func() {
		s.kill()
		text, _ := os.ReadFile(log.Name())
		log.Close()
		if t.Failed() {
			t.Logf("serve:\n%s", text)
		}
	})
	return s
}

func (s *served) start() {
	s.t.Helper()
	if err := s.tryStart(); err != nil {
		text, _ := os.ReadFile(s.log.Name())
		s.t.Fatalf("serve did not start: %v\n%s", err, text)
	}
}

// tryStart starts the server. It returns an error if the store cannot be reached.
func (s *served) tryStart() error {
	s.cmd = exec.Command("anylock", s.args...)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = s.cmd.Wait()
		return err
	}
	if s.url != "" { // a restart: clients may be reading the URL
		return nil
	}
	s.url = strings.TrimSpace(line)
	if address, ok := strings.CutPrefix(s.url, "http://"); ok {
		s.args = append(s.args, "--listen", address)
	}
	return nil
}

// kill kills the server, as the out-of-memory killer does.
func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	// A PUT on a connection to the killed server fails: the client repeats it by itself only once it has seen the end.
	http.DefaultClient.CloseIdleConnections()
}

func (s *served) do(method, target, body string) (int, string) {
	s.t.Helper()
	q, err := http.NewRequest(method, s.url+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

func (s *served) want(code int, method, target, body string) string {
	s.t.Helper()
	got, text := s.do(method, target, body)
	if got != code {
		s.t.Fatalf("%s %s: %d %s, want %d", method, target, got, text, code)
	}
	return text
}

// A lease survives a kill of the server. A server that receives SIGTERM replies to its waiters before it ends.
func TestServe(t *testing.T) {
	t.Parallel()
	s := serveOn(t, fileURL(t.TempDir()))
	first := s.want(200, "PUT", "/v1/locks/k?owner=a&ttl_ms=60000", "")
	s.kill()
	s.start()
	s.want(423, "PUT", "/v1/locks/k?owner=b", "")
	renewed := s.want(200, "POST", "/v1/locks/k/renew?owner=a&ttl_ms=60000", "")
	token := func(text string) string {
		_, after, _ := strings.Cut(text, `"token":`)
		before, _, _ := strings.Cut(after, ",")
		return before
	}
	if token(first) != token(renewed) || token(first) == "" {
		t.Errorf("granted %s, renewed %s", first, renewed)
	}
	waiter := make(chan int, 1)
	go func() {
		code, _ := s.do("PUT", "/v1/locks/k?owner=b&wait_ms=60000", "")
		waiter <- code
	}()
	for !strings.Contains(s.want(200, "GET", "/metrics", ""), "anylock_waiters 1\n") {
		time.Sleep(5 * time.Millisecond) // sleeps: between two reads of the metrics
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := <-waiter; code != 503 {
		t.Errorf("the waiter was answered %d", code)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
}

// A server on a Unix socket restricts the socket to its own user. It refuses a socket in use, and replaces the socket
// of a killed server.
func TestServeSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	s := serveOn(t, "memory:", "--listen", "unix:"+path, "--start-delay", "0")
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn,
		error) {
		return net.Dial("unix", path)
	}, DisableKeepAlives: true}}
	put := func() int {
		q, _ := http.NewRequest("PUT", "http://anylock/v1/locks/k?owner=a", nil)
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	if code := put(); code != 200 {
		t.Errorf("put: %d", code)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
	second := exec.Command("anylock", "serve", "--backend", "memory:", "--listen", "unix:"+path)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another server") {
		t.Errorf("a second server: %v\n%s", err, out)
	}
	s.kill()
	s.start()
	if code := put(); code != 200 {
		t.Errorf("put: %d", code)
	}
}

// Without --clients, a server on a loopback address refuses foreign host names, also with --plain-http. Otherwise a web
// page could reach it through a name of its own.
func TestServeRefusesForeignHosts(t *testing.T) {
	t.Parallel()
	s := serveOn(t, "memory:", "--start-delay", "0", "--plain-http", "--host", "locks.example")
	for host, want := range map[string]int{"evil.example": 421, "locks.example": 200, "localhost": 200} {
		q, err := http.NewRequest("GET", s.url+"/v1/locks", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, r.StatusCode, want)
		}
	}
}

// A limit that allows nothing is refused, except that requests may be allowed no wait.
func TestServeLimits(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--max-connections=0", "--max-connections-per-address=-1", "--max-waiters=0",
		"--max-waiters-per-client=-1", "--max-leases=0", "--max-leases-per-client=0", "--ttl=0", "--max-ttl=0",
		"--ttl=2m"} { // --max-ttl is 1m there
		cmd := exec.Command("anylock", "serve", "--backend", "memory:", "--listen", "127.0.0.1:99999", flag)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitUsage {
			t.Errorf("%s: exit %d %v\n%s", flag, code, err, out)
		}
	}
	s := serveOn(t, "memory:", "--start-delay", "0", "--max-wait", "0")
	s.want(200, "PUT", "/v1/locks/k?owner=a", "")
	s.want(423, "PUT", "/v1/locks/k?owner=b&wait_ms=60000", "")
}

// A file of clients has one JSON object. A second one is not dropped without a word.
func TestServeClientsTwice(t *testing.T) {
	t.Parallel()
	clients := filepath.Join(t.TempDir(), "clients.json")
	object := `{"clients": [{"name": "ci", "token": "0123456789abcdef"}]}` + "\n"
	if err := os.WriteFile(clients, []byte(object+object), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("anylock", "serve", "--backend", "memory:", "--listen", "127.0.0.1:99999", "--clients", clients)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(string(out), "more text") {
		t.Errorf("exit %d %v\n%s", code, err, out)
	}
}

// A file of clients that has a name twice is refused. Otherwise a client could get the rights of another one.
func TestClientsWithNamesGivenTwice(t *testing.T) {
	t.Parallel()
	const client = `{"name": "ci", "token": "0123456789abcdef", "rights": [{"prefix": "ci/", "allow": ["take"]}]}`
	for _, c := range []struct{ text, twice string }{
		{`{"clients": [` + client + `]}`, ""},
		{`{"clients": [` + client + `], "clients": [{"name": "b", "token": "0123456789abcdeg"}]}`, "clients"},
		{`{"clients": [` + client + `], "Clients": []}`, "Clients"},
		{`{"clients": [{"rights": [], ` + client[1:] + `]}`, "rights"},
		{`{"clients": [` + strings.Replace(client, `"prefix"`, `"prefix": "", "PREFIX"`, 1) + `]}`, "PREFIX"},
	} {
		file := filepath.Join(t.TempDir(), "clients.json")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &serving{app: &app{stderr: os.Stderr}, clients: file}
		got, want := "", ""
		if _, err := s.readClients(); err != nil {
			got = err.Error()
		}
		if c.twice != "" {
			want = strconv.Quote(c.twice) + " is given twice in one object"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", c.text, got, want)
		}
	}
}

// An address that other hosts can reach requires --clients, and TLS.
func TestServeRefusesOpenAddresses(t *testing.T) {
	t.Parallel()
	clients := filepath.Join(t.TempDir(), "clients.json")
	content := `{"clients": [{"name": "ci", "token": "0123456789abcdef", "rights": [{"prefix": "", "allow": ["take"]}]}]}`
	if err := os.WriteFile(clients, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", ":0"}, "needs --clients"},
		{[]string{"--listen", "0.0.0.0:0", "--plain-http"}, "needs --clients"},
		{[]string{"--listen", "[::]:0", "--clients", clients}, "tokens must not travel in the clear"},
		{[]string{"--clients", "/nowhere"}, "no such file"},
		{[]string{"--tls-cert", "x"}, "need each other"},
		{[]string{"--client-ca", "x"}, "--client-ca needs --tls-cert"},
	} {
		cmd := exec.Command("anylock", append([]string{"serve", "--backend", "memory:"}, c.args...)...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: exit %d %v\n%s", c.args, code, err, out)
		}
	}
}
