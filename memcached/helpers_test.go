package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = storetest.Soon

// patient makes a URL's client wait longer for answers than usual: what a test does in between takes its time, or the
// machine.
const patient = "?timeout=20s"

// What all stores' tests do.
var (
	opened  = storetest.Opened[*Backend]
	openURL = storetest.OpenURL[*Backend]
	req     = storetest.Try
	waiting = storetest.Wait
	acquire = storetest.Acquire
	release = storetest.Release
	until   = storetest.Until
)

// raw is a plain client, to look behind the backend.
func raw(t testing.TB, addr string) *memcache.Client {
	t.Helper()
	c := memcache.New(addr)
	c.Timeout = soon
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// left asks how many seconds an item has left to live, which the client library cannot.
func left(t testing.TB, addr, name string) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, soon)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	fmt.Fprintf(conn, "mg %s t\r\n", name)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var seconds int
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "HD t%d", &seconds); err != nil {
		t.Fatalf("mg %s: %q", name, line)
	}
	return seconds
}

func isHeld(t testing.TB, b backend.Backend, key string) {
	t.Helper()
	if _, err := b.Acquire(context.Background(), req(key, time.Second)); !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("acquire of %q: %v, want ErrHeld", key, err)
	}
}
