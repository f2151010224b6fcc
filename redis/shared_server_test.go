package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/endpoint"
)

// sharedDatabases is the number of databases on the shared server: more than there are tests in one run.
const sharedDatabases = 512

// A database is one test's database on the server that the tests of this package share. The test may change its
// database in any way, but changes to the server affect all tests. So a test that configures, kills or freezes its
// server, breaks all of its connections, flushes its scripts or counts its commands must start its own server.
type database struct {
	Addr   string // of the shared server
	URL    string
	Number int
}

// ownDatabase returns an empty database.
func ownDatabase(t testing.TB) *database {
	t.Helper()
	addr := sharedServer.addr(t)
	d := &database{Addr: addr, Number: int(sharedServer.given.Add(1)) % sharedDatabases}
	d.URL = d.at(addr)
	if err := d.raw(t).FlushDB(context.Background()).Err(); err != nil { // with -count, numbers may be used again
		t.Fatal(err)
	}
	return d
}

// at returns the URL of the database at another address of the server, such as that of a proxy.
func (d *database) at(addr string) string { return fmt.Sprintf("redis://%s/%d", addr, d.Number) }

// raw returns a plain client of the database, which bypasses the Backend.
func (d *database) raw(t testing.TB) *redis.Client { return d.client(t, redis.Options{Addr: d.Addr}) }

// client returns a client of the database with the options o.
func (d *database) client(t testing.TB, o redis.Options) *redis.Client {
	t.Helper()
	o.DB = d.Number
	c := redis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// evict deletes the lock of key from the server.
func (d *database) evict(t testing.TB, key string) {
	t.Helper()
	if err := d.raw(t).Del(context.Background(), naming{endpoint.DefaultNamespace}.lock(key)).Err(); err != nil {
		t.Fatal(err)
	}
}

// sharedServer starts when the first test needs it, and stops after the last test of the package.
var sharedServer packageServer

type packageServer struct {
	life   packageTB
	once   sync.Once
	server *servers.Server
	given  atomic.Int64
}

func (p *packageServer) addr(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		done := make(chan struct{})
		go func() { // Fatalf and Skipf of packageTB end this goroutine
			defer close(done)
			p.server = servers.Redis(&p.life, "--databases", fmt.Sprint(sharedDatabases))
		}()
		<-done
	})
	switch {
	case p.server != nil:
		return p.server.Addr
	case p.life.skipped:
		t.Skip(p.life.why)
	}
	t.Fatal(p.life.why)
	return ""
}

// A packageTB is the testing.TB of a server that lives as long as the tests of the package.
type packageTB struct {
	testing.TB // nil: package servers calls only the methods below
	mu         sync.Mutex
	cleanups   []func()
	why        string // the message of the last Errorf, Fatalf or Skipf
	skipped    bool
	failed     bool
}

func (p *packageTB) Helper()                  {}
func (p *packageTB) Name() string             { return "package" }
func (p *packageTB) Failed() bool             { return p.failed }
func (p *packageTB) Context() context.Context { return context.Background() }

func (p *packageTB) Log(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (p *packageTB) Logf(format string, args ...any) { p.Log(fmt.Sprintf(format, args...)) }

func (p *packageTB) Errorf(format string, args ...any) {
	p.failed, p.why = true, fmt.Sprintf(format, args...)
	p.Log(p.why)
}

func (p *packageTB) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

func (p *packageTB) Skipf(format string, args ...any) {
	p.skipped, p.why = true, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (p *packageTB) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

func (p *packageTB) TempDir() string {
	dir, err := os.MkdirTemp("", "anylock-redis-")
	if err != nil {
		p.Fatalf("%v", err)
	}
	p.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			p.Errorf("%v", err)
		}
	})
	return dir
}

// stop runs the cleanups, the latest first, and returns an error if anything has failed.
func (p *packageTB) stop() error {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
	if p.failed {
		return errors.New(p.why)
	}
	return nil
}
