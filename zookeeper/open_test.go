package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url     string
		servers []string
		want    Options
	}{
		{"zookeeper://h", []string{"h:2181"}, Options{}},
		{"zookeeper://", []string{"localhost:2181"}, Options{}},
		{"ZooKeeper://h1:1,h2", []string{"h1:1", "h2:2181"}, Options{}},
		{"zookeeper://h/", []string{"h:2181"}, Options{}},
		{"zookeeper://[::1]:1,[::2],127.0.0.1", []string{"[::1]:1", "[::2]:2181", "127.0.0.1:2181"}, Options{}},
		{"zookeepers://h1,h2:1", []string{"h1:2281", "h2:1"}, Options{}},
		{"zookeepers://", []string{"localhost:2281"}, Options{}},
		{"zookeeper://u:p%40@h/a/b%20?session_timeout=10s&timeout=3s", []string{"h:2181"},
			Options{User: "u", Password: "p@", Chroot: "/a/b ", SessionTimeout: 10 * time.Second, Timeout: 3 * time.Second}},
	} {
		u, err := storetest.Parse(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		got, err := fromURL(u)
		secure := got.Dial != nil
		got.Dial = nil
		if err != nil || !reflect.DeepEqual(u.Hosts, test.servers) || !reflect.DeepEqual(*got, test.want) ||
			secure != strings.HasPrefix(test.url, "zookeepers:") {
			t.Errorf("%s: %v, %+v, %v", test.url, u.Hosts, got, err)
		}
	}
}

// An invalid URL or option fails before any request. The error does not contain the password.
func TestOpenRefusesBadInput(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"zookeeper://h?cacert=/ca.pem", "zookeepers://h?cert=/c.pem", "zookeepers://h?cacert=/no-such-file",
		"zookeepers://h?tls=1",
		"zookeepers://h?cert=/no-such-file&key=/no-such-file", "zookeepers://h?cacert=", "zookeeper:h", "zookeeper:/h",
		"zookeeper://h1,,h2", "zookeeper://h:x", "zookeeper://u:hunter2@h:2181,h", "zookeeper://h:1:2",
		"zookeeper://u:hunter2@h?timeout=1", "zookeeper://h?session_timeout=0", "zookeeper://h?session_timeout=10",
		"zookeeper://h?session_timeout=-1s", "zookeeper://h?session_timeout=1s&session_timeout=2s", "zookeeper://h?lock_x=1",
		"zookeeper://h?lock_namespace=a", "zookeeper://h/a//b", "zookeeper://h/a/../b",
		"zookeeper://h/%00", "zookeeper://:hunter2@h", "zookeeper://@h", "zookeeper://h?session_timeout=%zz",
		"zookeeper://a%3Ab:hunter2@h",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), openTimeout) // ends only if the URL is accepted: there is no server h
		_, err := openURL(ctx, url)
		cancel()
		if !errors.Is(err, backend.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, o := range []*Options{
		{Chroot: "a"}, {Chroot: "/" + strings.Repeat("a", longestChroot)}, {Chroot: "/a/"},
		{Timeout: -1}, {Timeout: backend.MaxTTL + 1}, {SessionTimeout: -1}, {Password: "p"}, {User: "a:b"},
	} {
		if _, err := New(t.Context(), []string{"h:1"}, o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, list := range [][]string{nil, {""}, {"h"}, {":1"}, {"h:"}} {
		if _, err := New(t.Context(), list, nil); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("servers %q: %v", list, err)
		}
	}
}

// Opening fails at once if the only server's port is closed. It succeeds if another server serves.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	const closed = storetest.NoServer
	storetest.Within(t, openTimeout/2, "opening", func() {
		_, err := openURL(t.Context(), "zookeeper://u:hunter2@"+closed)
		if err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("closed port: %v", err)
		}
		isUnavailable(t, "closed port", err)
	})
	s := on(t, usual)
	b := opened(t, s.at(closed+","+s.Addr)) // the other one serves
	release(t, acquire(t, b, req("k", time.Minute)))
}

// Opening succeeds if one of several servers accepts connections but never replies.
func TestOpensPastHungServer(t *testing.T) {
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	s := on(t, usual)
	storetest.ThreeTries(t, func() error { // on a busy machine, the other server may be too slow for some of them
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs { // about half of them try the hung server first
			wg.Go(func() {
				b, err := openURL(t.Context(), s.at(hung.Addr().String()+","+s.Addr))
				if errs[i] = err; err != nil {
					return
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// Guarantees follow from the sessions that the servers grant.
func TestGuaranteesFollowServers(t *testing.T) {
	t.Parallel()
	s := on(t, lasting)
	for url, want := range map[string]limits{
		s.url():                         {2 * time.Second, time.Second, time.Minute},
		s.url() + "?session_timeout=8s": {2 * time.Second, time.Second, 8 * time.Second},
	} {
		b := opened(t, url)
		if b.limits != want || b.Guarantees() != want.guarantees() {
			t.Errorf("%s: %+v, %+v", url, b.limits, b.Guarantees())
		}
	}
}

// With a user, nodes belong to that user alone. Strangers can neither acquire the key nor list the nodes. The user can
// still use the locks after a reconnect.
func TestDigest(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	url := s.at("app:secret@"+s.Addr) + "/apps/shop"
	b, other := opened(t, url), opened(t, url)
	stranger := opened(t, s.at("app:wrong@"+s.Addr)+"/apps/shop")
	c := raw(t, s.Addr)
	for range 5 {
		l := acquire(t, b, req("k", time.Minute))
		if _, err := other.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("acquire by the same user: %v", err)
		}
		if _, err := stranger.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("acquire by a stranger: %v", err)
		}
		if _, _, err := c.Children(s.chroot + "/apps/shop/anylock"); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger's look: %v", err)
		}
		cut(b)
		until(t, soon, "the client works again", func() bool { return l.Renew(t.Context(), time.Minute) == nil })
		done := make(chan error, 1)
		go func() {
			l, err := other.Acquire(t.Context(), waiting("k", time.Minute))
			if err == nil {
				err = l.Release(t.Context())
			}
			done <- err
		}()
		until(t, soon, "the waiter queues", func() bool {
			h, err := b.Inspect(t.Context(), "k")
			return err == nil && h.Waiters == 1
		})
		cut(other)
		release(t, l)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, _, err := c.Children(s.chroot + "/apps/shop"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("the chroot that was created is open: %v", err)
	}
}

// Locks below different chroots are independent. Nodes of a chroot that already exist are used as they are.
func TestChroot(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	user := zk.DigestACL(zk.PermAll, "admin", "x")
	open := append(zk.WorldACL(zk.PermRead|zk.PermCreate), user...)
	if _, err := c.Create(s.chroot, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(s.chroot+"/apps", nil, 0, append(zk.WorldACL(zk.PermRead), user...)); err != nil {
		t.Fatal(err)
	}
	if err := c.AddAuth("digest", []byte("admin:x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(s.chroot+"/apps/shop", nil, 0, open); err != nil {
		t.Fatal(err)
	}
	var leases []backend.Lease
	for _, rest := range []string{"", "/a", "/a/b", "/apps/shop"} {
		b := opened(t, s.url()+rest)
		leases = append(leases, acquire(t, b, req("k", time.Minute)))
		again := opened(t, s.url()+rest)
		if _, err := again.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("%q: %v", rest, err)
		}
	}
	for _, l := range leases {
		release(t, l)
	}
	if _, err := openURL(t.Context(), s.url()+"/apps/no"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a chroot that may not be created: %v", err)
	}
}

// Options.Dial makes all connections, and Options.ACL is set on created nodes.
func TestDialOption(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	var dials atomic.Int32
	b, err := New(t.Context(), []string{"zk.invalid:2181"}, &Options{
		Chroot: s.chroot,
		Dial: func(network, _ string, timeout time.Duration) (net.Conn, error) {
			dials.Add(1)
			return net.DialTimeout(network, s.Addr, timeout)
		},
		ACL: zk.WorldACL(zk.PermAll &^ zk.PermAdmin),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req("k", time.Minute)))
	if dials.Load() < 3 {
		t.Errorf("%d dials", dials.Load())
	}
	acl, _, err := raw(t, s.Addr).GetACL(b.dir("k"))
	if err != nil || len(acl) != 1 || acl[0].Perms != zk.PermAll&^zk.PermAdmin {
		t.Errorf("acl %+v, %v", acl, err)
	}
}

// Opening fails if the server is older than 3.5.1, and so does not support containers. The test's server implements as
// much of the protocol as opening needs.
func TestOldServerIsRefused(t *testing.T) {
	t.Parallel()
	_, err := openURL(t.Context(), "zookeeper://"+oldServer(t))
	if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), "3.5.1 or newer") {
		t.Errorf("open: %v", err)
	}
}

// oldServer starts a server that behaves like ZooKeeper 3.4: it grants a session, rejects the request for a container
// as unknown, and closes the connection.
func oldServer(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	serve := func(c net.Conn) {
		defer c.Close()
		word := make([]byte, 4)
		if _, err := io.ReadFull(c, word); err != nil {
			return
		}
		first := make([]byte, be.Uint32(word))
		if _, err := io.ReadFull(c, first); err != nil {
			return
		}
		body := be.AppendUint32(nil, 0)
		body = be.AppendUint32(body, 10000)
		body = be.AppendUint64(body, 7)
		body = append(be.AppendUint32(body, 16), make([]byte, 16)...)
		_, _ = c.Write(append(be.AppendUint32(nil, uint32(len(body))), body...))
		for {
			p, err := readFrame(c)
			if err != nil {
				return
			}
			code := int32(0)
			op := int32(be.Uint32(p[4:]))
			if op == opContainer {
				code = -6 // unimplemented
			}
			reply := be.AppendUint32(nil, 16)
			reply = be.AppendUint32(append(reply, p[:4]...), 0)
			reply = be.AppendUint32(reply, 0)
			_, _ = c.Write(be.AppendUint32(reply, uint32(code)))
			if op == opClose || code != 0 {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c) })
		}
	})
	return l.Addr().String()
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	p := make([]byte, be.Uint32(head[:]))
	_, err := io.ReadFull(r, p)
	return p, err
}
