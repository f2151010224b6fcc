package servers

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	// ContainersEnv names the environment variable that, if it is 1, leaves the machine's own servers alone and runs
	// containers.
	ContainersEnv = "ANYLOCK_TEST_CONTAINERS"
	// RedisImageEnv names the environment variable with the container image of Redis, if it is not to be redis:7.
	RedisImageEnv = "ANYLOCK_TEST_REDIS_IMAGE"
)

// A redisSpec says how to run one redis-server.
type redisSpec struct {
	ask      resp
	options  []string                             // of the command line, on top of those that all have
	tls      bool                                 // listen with TLS only
	sentinel func(own, bind string) (conf string) // the whole configuration of a sentinel, which has no options
	files    map[string]string                    // by name; in the server's folder, where it runs
}

// A redisGroup starts the servers of one test, which reach each other on 127.0.0.1: processes, or containers of a pod.
type redisGroup struct {
	binary string
	port   func(t testing.TB) int // of the next process
	pod    *pod                   // nil for processes
}

// redisSource finds out how to run so many servers, or ends the test.
func redisSource(t testing.TB, count int) *redisGroup {
	t.Helper()
	if os.Getenv(ContainersEnv) != "1" {
		binary, ok := find([]string{"redis-server", "valkey-server"},
			"/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/redis*/bin")
		if ok {
			return &redisGroup{binary: binary, port: freePort}
		}
	}
	image := os.Getenv(RedisImageEnv)
	if image == "" {
		image = "redis:7"
	}
	pod, err := newPod(t, image, count)
	if err != nil {
		Missing(t, "no redis-server on this machine, and no container: %v", err)
	}
	return &redisGroup{binary: "redis-server", pod: pod}
}

// start starts one server and waits for it. A port that turns out to be taken is given up for another.
func (g *redisGroup) start(t testing.TB, spec redisSpec) *Server {
	t.Helper()
	const attempts = 5
	for attempt := 1; ; attempt++ {
		s := g.server(t, spec)
		err := s.startAndWait()
		if err == nil {
			return s.keep()
		}
		log := s.node.log()
		_ = s.node.kill()
		_ = s.node.remove()
		if g.pod != nil || attempt == attempts || !strings.Contains(log, "Address already in use") {
			t.Fatalf("servers: start redis %s: %v\n%s", s.Addr, err, tail(log))
		}
	}
}

// server makes a server that is not started yet.
func (g *redisGroup) server(t testing.TB, spec redisSpec) *Server {
	t.Helper()
	s := &Server{t: t, kind: "redis", ready: spec.ask.ready}
	if g.pod == nil {
		port := g.port(t)
		args, files := spec.command(strconv.Itoa(port), "127.0.0.1")
		s.Addr, s.Dir = loopback(port), t.TempDir()
		for name, text := range files {
			writeFile(t, filepath.Join(s.Dir, name), []byte(text))
		}
		s.node = newProcess(g.binary, s.Dir, args...)
		return s
	}
	if option(spec.options, "--unixsocket") != "" {
		t.Skip("servers: a unix socket needs redis-server on this machine: one in a container is out of reach")
	}
	port := g.pod.ports[0]
	g.pod.ports = g.pod.ports[1:]
	args, files := spec.command(strconv.Itoa(port), "0.0.0.0") // published on 127.0.0.1 only
	node, err := g.pod.node(spec.readyLog(), files, append([]string{g.binary}, args...)...)
	if err != nil {
		t.Fatalf("servers: redis container: %v", err)
	}
	s.Addr, s.node = loopback(port), node
	return s
}

// command returns the command line and files of a server on port.
func (spec redisSpec) command(port, bind string) (args []string, files map[string]string) {
	if spec.sentinel != nil {
		const conf = "sentinel.conf"
		return []string{conf, "--sentinel"}, map[string]string{conf: spec.sentinel(port, bind)}
	}
	listen := []string{"--port", port}
	if spec.tls {
		listen = []string{"--port", "0", "--tls-port", port}
	}
	args = append(listen, "--bind", bind, "--protected-mode", "no", "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--appendfsync", "no",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
	return append(args, spec.options...), spec.files
}

// readyLog is what a server writes when it is about to answer.
func (spec redisSpec) readyLog() string {
	if spec.sentinel != nil {
		return "+monitor"
	}
	return "Ready to accept connections"
}
