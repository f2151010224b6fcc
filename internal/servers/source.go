package servers

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A kind of server describes how to find its program.
type kind struct {
	name  string
	find  func(t testing.TB) (program string, ok bool) // on this machine
	taken string                                       // the part of its log that reports that a port is in use
}

// findProgram returns a kind.find that accepts any of the programs names, in PATH or in one of places.
func findProgram(names []string, places ...string) func(t testing.TB) (string, bool) {
	return func(testing.TB) (string, bool) { return find(names, places...) }
}

// A group starts the servers of one test, which reach each other on 127.0.0.1.
type group struct {
	kind   kind
	binary string
	port   func(t testing.TB) int // the next free port
}

// source finds the program of a kind of server. If there is none, source ends the test.
func (k kind) source(t testing.TB) *group {
	t.Helper()
	binary, ok := k.find(t)
	if !ok {
		Missing(t, "no %s on this machine", k.name)
	}
	return &group{kind: k, binary: binary, port: freePort}
}

// A launch describes how to run one server. The server runs in its own folder, so relative paths refer to this folder.
type launch struct {
	ports   []int // to listen on, the clients' first; nil if the group chooses one
	command func(at place) (args []string, files map[string]string)
	ready   func(ctx context.Context, s *Server) error

	// empty deletes the data of a killed server; nil if the data are not known.
	empty func(s *Server) error

	// process creates the node, for servers that need more than a folder and a command; nil for other servers.
	process func(t testing.TB, s *Server, args []string, files map[string]string) node
}

// A place is where a server listens.
type place struct {
	port  string // the clients'
	ports []string
}

// start starts one server and waits until it responds. If its port is in use, start retries with another port.
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

// server returns a server that has not been started yet.
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
	s.Dir = newFolder(t)
	for name, text := range files {
		writeFile(t, filepath.Join(s.Dir, name), []byte(text))
	}
	s.node = newProcess(g.binary, s.Dir, args...)
	return s
}
