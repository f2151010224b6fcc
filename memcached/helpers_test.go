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

// soon is the time limit, on a busy machine, for anything that should happen at once.
const soon = storetest.Soon

// patient is a URL parameter for a long timeout. It is for tests that delay requests, and for slow machines.
const patient = "?timeout=20s"

// Helpers that the tests of all stores share.
var (
	opened  = storetest.Opened[*Backend]
	openURL = storetest.OpenURL[*Backend]
	req     = storetest.Try
	waiting = storetest.Wait
	acquire = storetest.Acquire
	release = storetest.Release
	until   = storetest.Until
)

// raw returns a plain client, which bypasses the Backend.
func raw(t testing.TB, addr string) *memcache.Client {
	t.Helper()
	c := memcache.New(addr)
	c.Timeout = soon
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// left returns how many seconds an item has left. The client library cannot request this.
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
