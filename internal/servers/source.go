package servers

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A kind of server says where to get it.
type kind struct {
	name  string
	find  func(t testing.TB) (program string, ok bool) // on this machine
	taken string                                       // what its log says of a port that is in use
}

// findProgram is kind.find for programs of which any will do: in PATH, or in one of places.
func findProgram(names []string, places ...string) func(t testing.TB) (string, bool) {
	return func(testing.TB) (string, bool) { return find(names, places...) }
}

// A group starts the servers of one test, which reach each other on 127.0.0.1.
type group struct {
	kind   kind
	binary string
	port   func(t testing.TB) int // the next free one
}

// source finds the program of a kind of server, or ends the test.
func (k kind) source(t testing.TB) *group {
	t.Helper()
	binary, ok := k.find(t)
	if !ok {
		Missing(t, "no %s on this machine", k.name)
	}
	return &group{kind: k, binary: binary, port: freePort}
}

// A launch says how to run one server. It runs in a folder of its own, so that paths are relative to it.
type launch struct {
	ports   []int // to listen on, the clients' first; nil for one that the group chooses
	command func(at place) (args []string, files map[string]string)
	ready   func(ctx context.Context, s *Server) error

	// empty makes what a killed server keeps in its folder as new; nil where that is not known.
	empty func(s *Server) error

	// process makes the node that runs here, for servers that need more than a folder and a command; nil for the
	// others.
	process func(t testing.TB, s *Server, args []string, files map[string]string) node
}

// A place is where a server runs.
type place struct {
	port  string // the clients'
	ports []string
}

// start starts one server and waits for it. A port that turns out to be taken is given up for another.
func (g *group) start(t testing.TB, l launch) *Server {
	t.Helper()
	const attempts = 5
	for attempt := 1; ; attempt++ {
		s := g.server(t, l)
		err := s.startAndWait()
		if err == nil {
			return s.keep()
		}
		log := s.node.log()
		_ = s.node.kill()
		_ = s.node.remove()
		if l.ports != nil || attempt == attempts || !strings.Contains(log, g.kind.taken) {
			t.Fatalf("servers: start %s %s: %v\n%s", g.kind.name, s.Addr, err, tail(log))
		}
	}
}

// server makes a server that is not started yet.
func (g *group) server(t testing.TB, l launch) *Server {
	t.Helper()
	ports := l.ports
	if ports == nil {
		ports = []int{g.port(t)}
	}
	var at place
	for _, port := range ports {
		at.ports = append(at.ports, strconv.Itoa(port))
	}
	at.port = at.ports[0]
	args, files := l.command(at)
	s := &Server{Addr: loopback(ports[0]), t: t, kind: g.kind.name, ready: l.ready, empty: l.empty}
	if l.process != nil {
		s.node = l.process(t, s, args, files)
		return s
	}
	s.Dir = t.TempDir()
	for name, text := range files {
		writeFile(t, filepath.Join(s.Dir, name), []byte(text))
	}
	s.node = newProcess(g.binary, s.Dir, args...)
	return s
}
