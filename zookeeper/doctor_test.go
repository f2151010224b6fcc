package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, "maxSessionTimeout=60000")
	if list := storetest.Examined(t, opened(t, "zookeeper://"+s.Addr)); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}

func TestDoctorSessions(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, "minSessionTimeout=9000", "4lw.commands.whitelist=srvr,envi")
	storetest.Finds(t, opened(t, "zookeeper://"+s.Addr), "long-sessions", "unseen")
}

func TestDoctorServersDiffer(t *testing.T) {
	storetest.Long(t, "two servers")
	t.Parallel()
	s := servers.ZooKeeper(t)
	b := opened(t, "zookeeper://"+s.Addr)
	other := servers.ZooKeeper(t, "maxSessionTimeout=5000") // not in an ensemble with s, which does not matter here
	b.servers = append(b.servers, other.Addr, "127.0.0.1:1")
	if f := storetest.Finds(t, b, "sessions-differ", "unreachable"); f.Where != other.Addr {
		t.Errorf("%+v", f)
	}
}

// A server that accepts connections but never replies is reported as unreachable, and not as a server that forbids its
// commands. Examine does not wait for it for longer than the caller's context.
func TestDoctorSilentServer(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	b.servers = append(b.servers, silent.Addr().String())
	if f := storetest.Finds(t, b, "unreachable"); f.Where != silent.Addr().String() {
		t.Errorf("%+v", f)
	}
	storetest.Within(t, maxHandshake*3/4, "examine with little time", func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxHandshake/4)
		defer cancel()
		if _, err := b.Examine(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("examine with little time: %v", err)
		}
	})
}

// A dial for a command of the doctor lasts no longer than the caller's context.
func TestDoctorDialsWithinContext(t *testing.T) {
	t.Parallel()
	var limits []time.Duration
	b := &Backend{options: Options{Dial: func(_, _ string, limit time.Duration) (net.Conn, error) {
		limits = append(limits, limit)
		return nil, errors.New("refused")
	}}}
	const little = maxHandshake / 4
	for _, age := range []time.Duration{0, 2 * little} { // of a context with little time
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(little-age))
		_, _ = b.describe(ctx, "h:1", "srvr")
		cancel()
	}
	_, _ = b.describe(t.Context(), "h:1", "srvr")
	if len(limits) != 3 || limits[0] > little || limits[1] != 1 || limits[2] != maxHandshake {
		t.Errorf("limits %v of dials within %v, after the end, and without a limit", limits, little)
	}
}

// If the connection breaks during the command conf, the finding names that error, and not the whitelist.
func TestDoctorBrokenConf(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var server sync.WaitGroup
	server.Go(func() {
		for _, reply := range []string{"Zookeeper version: 3.8", ""} {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, len("conf")))
			_, _ = io.WriteString(c, reply)
			if reply == "" {
				_ = c.(*net.TCPConn).SetLinger(0) // makes the close a reset
			}
			c.Close()
		}
	})
	defer server.Wait()
	defer ln.Close()
	b := &Backend{options: Options{Dial: net.DialTimeout}}
	list := b.examineServer(t.Context(), ln.Addr().String())
	if len(list) != 1 || list[0].Code != "unseen" || !strings.Contains(list[0].Found, "reset") {
		t.Errorf("%+v", list)
	}
}

func TestDoctorManyKeys(t *testing.T) {
	storetest.Long(t, "ten thousand nodes")
	t.Parallel()
	s := on(t, usual)
	b := opened(t, s.url())
	c, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const page = 500
	for n := 0; n <= manyKeys; {
		var ops []any
		for range page {
			ops = append(ops, &zk.CreateRequest{Path: b.dir(time.Duration(n).String()), Acl: zk.WorldACL(zk.PermAll)})
			n++
		}
		if _, err := c.Multi(ops...); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Finds(t, b, "many-keys")
}

func TestDoctorOfClosed(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	b.Close()
	if _, err := b.Examine(context.Background()); err == nil {
		t.Error("no error")
	}
}
