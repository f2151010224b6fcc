package link

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime/pprof"
	"time"
)

// A port is the address at which clients reach one server. Its fields are guarded by link.dials.
type port struct {
	link           *Link
	addr, upstream string
	release        func()           // frees the port; nil once that is done
	listener       *net.TCPListener // nil while dials are refused
	accepting      chan struct{}    // closed when the accept loop of listener has ended
}

// listen starts to accept dials again.
func (p *port) listen() error {
	if p.listener != nil || p.release == nil {
		return nil
	}
	listener, err := portSharing.Listen(context.Background(), "tcp", p.addr)
	if err != nil {
		return err
	}
	tcp, accepting := listener.(*net.TCPListener), make(chan struct{})
	p.listener, p.accepting = tcp, accepting
	p.link.running.Go(func() {
		defer close(accepting)
		p.link.accept(tcp, p.upstream)
	})
	return nil
}

// stop closes the listener, so that the kernel refuses dials.
func (p *port) stop() {
	if p.listener == nil {
		return
	}
	_ = p.listener.Close()
	<-p.accepting
	p.listener = nil
}

// free releases the port.
func (p *port) free() {
	if p.release != nil {
		p.release()
		p.release = nil
	}
}

// listen starts to accept dials on every port again. If another program has bound a port, listen retries for a few
// seconds.
func (l *Link) listen() {
	const (
		patience = 5 * time.Second
		pause    = 10 * time.Millisecond
	)
	for _, p := range l.ports {
		for end := time.Now().Add(patience); p.listen() != nil && time.Now().Before(end); {
			time.Sleep(pause)
		}
	}
}

// accept makes a connection to upstream for each connection that listener accepts.
func (l *Link) accept(listener *net.TCPListener, upstream string) {
	// The labels of the goroutine that made the link count a client's goroutines. The link's own goroutines must not
	// inherit them.
	pprof.SetGoroutineLabels(context.Background())
	for l.mayAccept() {
		client, err := listener.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) { // see Ignore
			continue
		}
		if err != nil {
			return
		}
		c := l.newConn(client)
		l.running.Go(func() { c.serve(upstream) })
	}
}
