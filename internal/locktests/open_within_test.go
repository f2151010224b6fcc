package locktests

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/pair"
)

// nameServer replaces the usual name servers unless it is nil. It is atomic, because clients may still read it after
// the Open that created them has returned.
var nameServer atomic.Pointer[string]

func init() {
	net.DefaultResolver = &net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if server := nameServer.Load(); server != nil {
				network, address = "udp", *server
			}
			return (&net.Dialer{Resolver: new(net.Resolver)}).DialContext(ctx, network, address)
		}}
}

// Open of every scheme returns within its context, whether name servers, servers or dials get no reply.
func TestOpenReturnsWithinItsContext(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the time limits of client libraries")
	}
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { names.Close() })
	address := names.LocalAddr().String()
	nameServer.Store(&address)
	t.Cleanup(func() { nameServer.Store(nil) })
	socket := filepath.Join(t.TempDir(), "socket")
	listenSilently(t, "unix", socket)
	server, peer := listenSilently(t, "tcp", "127.0.0.1:0"), listenSilently(t, "tcp", "127.0.0.1:0")
	dropping, err := link.New(server, peer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dropping.Close)
	dropping.Ignore()

	urls := remoteURLs(socket)
	file := "file://" + t.TempDir()
	for _, u := range slices.Clone(urls) {
		urls = append(urls, pair.URL(u, file, 0), pair.URL(file, u, 0))
	}
	goroutines := runtime.NumGoroutine()
	var wg sync.WaitGroup
	atOnce := make(chan struct{}, 16)
	for what, hosts := range map[string][]string{
		"names without an answer": {"silent.anylock.invalid:6379", "mute.anylock.invalid:6379"},
		"silent server":           {server, peer},
		"dials without an answer": dropping.Addrs(),
	} {
		for _, u := range urls {
			wg.Go(func() {
				atOnce <- struct{}{}
				defer func() { <-atOnce }()
				u := strings.NewReplacer("HOST", hosts[0], "PEER", hosts[1]).Replace(u)
				if err := opensWithin(t, u); err != nil {
					t.Errorf("%s, %s: %v", what, u, err)
				}
			})
		}
	}
	wg.Wait()
	// Client libraries continue in the background until their own time limits.
	storetest.Until(t, time.Minute, "the goroutines of opens have ended", func() bool {
		return runtime.NumGoroutine() <= goroutines+1
	})
}

// remoteURLs returns a URL for every scheme of a store on a server. HOST and PEER stand for the server's addresses.
func remoteURLs(socket string) (urls []string) {
	for _, d := range driver.Registered() {
		for _, s := range d.Schemes() {
			switch {
			case s == "file" || s == "memory" || s == "pair":
			case s == "redis+unix":
				urls = append(urls, s+"://"+socket)
			case strings.HasSuffix(s, "+sentinel"):
				urls = append(urls, s+"://HOST/master")
			case strings.HasSuffix(s, "+redlock"):
				urls = append(urls, s+"://HOST,PEER,127.0.0.1:1")
			default:
				urls = append(urls, s+"://HOST")
			}
		}
	}
	return urls
}

// opensWithin returns an error if Open was late in every attempt: on a busy machine, one attempt may be late.
func opensWithin(t *testing.T, url string) (err error) {
	const (
		limit    = 100 * time.Millisecond
		grace    = 100 * time.Millisecond
		attempts = 4
	)
	for range attempts {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		l, opened := lock.Open(ctx, url)
		late := time.Since(begun) - limit
		cancel()
		switch {
		case opened == nil:
			l.Close()
			return errors.New("opened")
		case late >= 0 && !errors.Is(opened, context.DeadlineExceeded):
			return fmt.Errorf("%w, want context.DeadlineExceeded", opened)
		case late <= grace:
			return nil
		}
		err = fmt.Errorf("returned %v after its context had ended: %w", late, opened)
	}
	return err
}

// listenSilently accepts all connections and never replies. It returns its address.
func listenSilently(t *testing.T, network, addr string) string {
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String()
}
