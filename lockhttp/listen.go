package lockhttp

import (
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTime     = 5 * time.Second // for a peer to send the head of a request
	idleTime       = 2 * time.Minute // between two requests of a connection
	maxHeaderBytes = 16 << 10        // a key of 1 KiB is 3 KiB in a path
	maxStreams     = 1000            // of one HTTP/2 connection
)

// NewHTTPServer returns an http.Server for h with the time limits that a Server needs. They limit what slow peers can
// use, and do not end a long wait. It serves HTTP/1.1 and HTTP/2, and HTTP/2 without TLS too.
func NewHTTPServer(h http.Handler, logger *slog.Logger) *http.Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: writeTime,
			SendPingTimeout: idleTime},
		ErrorLog: log.New(debugWriter{logger}, "", 0),
	}
}

// debugWriter logs net/http's errors at level debug. Any peer can cause them, for example by a failed handshake.
type debugWriter struct{ logger *slog.Logger }

// Write implements io.Writer.
func (w debugWriter) Write(line []byte) (int, error) {
	w.logger.Debug("http", "message", string(line))
	return len(line), nil
}

// LimitListener closes a new connection at once if most connections are open, or mostPerHost from the same address. All
// connections of a Unix socket have the same address; mostPerHost does not apply to them.
func LimitListener(l net.Listener, most, mostPerHost int) net.Listener {
	return &limitListener{Listener: l, most: most, mostPerHost: mostPerHost, hosts: make(map[string]int)}
}

type limitListener struct {
	net.Listener
	most, mostPerHost int

	mu    sync.Mutex
	open  int
	hosts map[string]int
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err != nil {
			host = "" // of a Unix socket
		}
		if l.admit(host) {
			return &limitedConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(host) })}, nil
		}
		_ = conn.Close()
	}
}

func (l *limitListener) admit(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most || host != "" && l.hosts[host] >= l.mostPerHost {
		return false
	}
	l.open++
	l.hosts[host]++
	return true
}

func (l *limitListener) leave(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
