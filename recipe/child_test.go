//go:build linux

package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/memcached"
	_ "github.com/anylock/lock/postgres"
	"github.com/anylock/lock/recipe"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/redis/redlock"
	_ "github.com/anylock/lock/zookeeper"
)

// The environment variables of a child process: the store's URL and the TTL.
const (
	childURL = "ANYLOCK_RECIPE_URL"
	childTTL = "ANYLOCK_RECIPE_TTL"
)

// permits is the limit of the children's semaphore and of their readers. setKeys are the keys of their sets.
const permits = 2

var setKeys = []string{"x", "y", "z"}

func init() { child = runChild }

// runChild runs all recipes until its input ends, and reports its holds on standard output, one line for each event. It
// does nothing in the parent process. In the lines, a TIME is a time of now, and an ID identifies a hold:
//
//	! TEXT                      an error that must not happen
//	+ ID KIND KEY TOKEN TIME    KEY has been held since TIME at the latest
//	= ID TIME                   all keys of ID were still held at TIME
//	- ID TIME HOW               all keys of ID were held until TIME, then released or lost, as HOW says
func runChild() {
	url := os.Getenv(childURL)
	if url == "" {
		return
	}
	c := new(reporter)
	code := 0
	if err := c.run(url); err != nil {
		c.say("! %v", err)
		code = 1
	}
	os.Exit(code)
}

type reporter struct {
	mu   sync.Mutex // of standard output
	last atomic.Int64
}

func (c *reporter) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

func (c *reporter) run(url string) error {
	ttl, err := time.ParseDuration(os.Getenv(childTTL))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	locks, err := lock.Open(ctx, url, lock.WithTTL(ttl))
	if err != nil {
		return err
	}
	semaphore, err := recipe.NewSemaphore(locks, "mail", permits)
	if err != nil {
		return err
	}
	doc, err := recipe.NewRW(locks, "doc", permits)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	// If any waiter may be next, those that acquire again at once starve the others.
	fair := locks.Guarantees().FIFO
	yield := func() {
		if !fair {
			time.Sleep(rand.N(200 * time.Millisecond)) // sleeps: a pause between turns
		}
	}
	workers.Go(func() {
		for ctx.Err() == nil { // an error of f ends Lead
			c.failed(recipe.Lead(ctx, locks, "boss", func(ctx context.Context, l *lock.Lease) error {
				c.hold(ctx, "boss", l, []string{"boss"}, l.Token())
				if !fair || rand.IntN(4) == 0 {
					return errors.New("an error of its own")
				}
				return nil
			}))
			yield()
		}
	})
	const each = 2
	for range each {
		workers.Go(func() {
			for ctx.Err() == nil {
				permit, err := semaphore.Acquire(ctx)
				if c.failed(err) {
					continue
				}
				c.hold(permit.Context(ctx), "mail", permit, []string{permit.Key()}, permit.Token())
				_ = permit.Release(ctx) // it may have been lost
				yield()
			}
		})
		workers.Go(func() {
			for ctx.Err() == nil {
				keys := make([]string, 1+rand.IntN(len(setKeys)))
				for i, k := range rand.Perm(len(setKeys))[:len(keys)] {
					keys[i] = setKeys[k]
				}
				set, err := recipe.AcquireAll(ctx, locks, keys)
				if c.failed(err) {
					continue
				}
				tokens := make([]uint64, len(keys))
				for i, key := range keys {
					tokens[i] = set.Lease(key).Token()
				}
				c.hold(set.Context(ctx), "set", set, keys, tokens...)
				_ = set.Release(ctx)
				yield()
			}
		})
	}
	for kind, acquire := range map[string]acquireRW{"read": doc.AcquireShared, "write": doc.Acquire} {
		workers.Go(func() {
			for ctx.Err() == nil {
				lease, err := acquire(ctx)
				if c.failed(err) {
					continue
				}
				c.hold(lease.Context(ctx), kind, lease, []string{"doc"}, lease.Token())
				_ = lease.Release(ctx)
				yield()
			}
		})
	}
	workers.Wait()
	return locks.Close()
}

// failed reports whether err is not nil, and reports err to the parent if no fault explains it.
func (c *reporter) failed(err error) bool {
	for _, bad := range []error{lock.ErrInvalid, lock.ErrUnsupported, lock.ErrDeadlock, lock.ErrClosed, recipe.ErrLimit} {
		if errors.Is(err, bad) {
			c.say("! %v", err)
		}
	}
	if err != nil {
		time.Sleep(10 * time.Millisecond) // sleeps: a pause between attempts
	}
	return err != nil
}

// A held is a lease or a set of leases.
type held interface {
	Err() error
	Deadline() time.Time
}

// hold holds keys for a random time, at most 100 ms, and reports that. It reports a time only if it finds the hold
// alive after reading the clock, because the process may be stopped anywhere.
func (c *reporter) hold(ctx context.Context, kind string, h held, keys []string, tokens ...uint64) {
	var (
		id      = c.last.Add(1)
		alive   time.Duration
		noticed atomic.Int64 // when ctx ended
	)
	defer context.AfterFunc(ctx, func() { noticed.Store(int64(now())) })()
	for end := time.Now().Add(rand.N(100 * time.Millisecond)); alive == 0 ||
		time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		at := now()
		if ctx.Err() != nil || h.Err() != nil {
			break
		}
		if alive == 0 {
			for i, token := range tokens {
				c.say("+ %d %s %s %d %d", id, kind, keys[i], token, at)
			}
		}
		alive = at
		c.say("= %d %d", id, alive)
	}
	if alive == 0 {
		return // lost before the first check
	}
	how := "released"
	if errors.Is(h.Err(), lock.ErrLost) {
		how = "lost"
		// If the lease was lost at its deadline, without an earlier notification, it was exclusive until then.
		until := min(now()+time.Until(h.Deadline()), now())
		if ctx.Err() == nil || time.Duration(noticed.Load()) >= until {
			alive = max(alive, until)
		}
	}
	c.say("- %d %d %s", id, alive, how)
}

// now returns the time of a clock that all processes share.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
