package memcached

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

// A proxy counts requests and injects faults.
type proxy struct {
	*storetest.Relay

	mu     sync.Mutex
	counts map[string]int           // requests by their verb
	fault  func(verb string) action // returns the action for a request; nil passes all
	trace  func(conn int, verb, name string)
	last   int // number of the last connection
}

// An action is how a proxy handles a request.
type action int

const (
	pass      action = iota
	loseReply        // the server executes the request, and the connection breaks before the reply
	refuse           // the connection breaks before the server gets the request
	full             // replies like a server that is out of memory
)

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{counts: make(map[string]int)}
	p.Relay = storetest.NewRelay(t, "127.0.0.1:0", target, p.serve)
	return p
}

// serve forwards requests one by one, and the reply to each.
func (p *proxy) serve(_ *storetest.Relay, client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	p.mu.Lock()
	p.last++
	number := p.last
	p.mu.Unlock()
	requests, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		verb, name, request, err := readRequest(requests)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.counts[verb]++
		if p.trace != nil {
			p.trace(number, verb, name)
		}
		fault := p.fault
		p.mu.Unlock()
		what := pass
		if fault != nil {
			what = fault(verb)
		}
		if what == refuse {
			return
		}
		if what == full {
			_, _ = io.WriteString(client, "SERVER_ERROR out of memory storing object\r\n")
			continue
		}
		if _, err := server.Write(request); err != nil {
			return
		}
		reply, err := readReply(verb, replies)
		if err != nil || what == loseReply {
			return
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

func readRequest(in *bufio.Reader) (verb, name string, request []byte, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return "", "", nil, err
	}
	words := append(strings.Fields(string(line)), "", "") // some requests have no name
	verb, name = words[0], words[1]
	if verb != "add" && verb != "set" && verb != "cas" && verb != "append" {
		return verb, name, line, nil
	}
	n, err := strconv.Atoi(words[4])
	if err != nil {
		return "", "", nil, err
	}
	data := make([]byte, n+2)
	_, err = io.ReadFull(in, data)
	return verb, name, append(line, data...), err
}

func readReply(verb string, in *bufio.Reader) (reply []byte, err error) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		reply = append(reply, line...)
		if bytes.HasPrefix(line, []byte("STAT ")) {
			continue
		}
		if words := strings.Fields(string(line)); verb == "gets" && words[0] == "VALUE" {
			n, err := strconv.Atoi(words[3])
			if err != nil {
				return nil, err
			}
			data := make([]byte, n+2)
			if _, err := io.ReadFull(in, data); err != nil {
				return nil, err
			}
			reply = append(reply, data...)
			continue
		}
		return reply, nil
	}
}

// set injects fault from now on; nil stops all faults.
func (p *proxy) set(fault func(verb string) action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// once applies what to the next request with verb. done is closed when the request arrives.
func (p *proxy) once(verb string, what action) (done <-chan struct{}) {
	came := make(chan struct{})
	var once sync.Once
	p.set(func(v string) (do action) {
		if v == verb {
			once.Do(func() {
				close(came)
				do = what
			})
		}
		return do
	})
	return came
}

// count returns the requests since the last call, by verb, and their sum.
func (p *proxy) count() (counts map[string]int, sum int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts = p.counts
	p.counts = make(map[string]int)
	for _, n := range counts {
		sum += n
	}
	return counts, sum
}
