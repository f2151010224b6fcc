//go:build linux

package main

import (
	"crypto/rand"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
)

// stubborn is a command that ignores SIGTERM and starts a process that ignores it too. It prints both process ids. The
// first is its own, which is also the id of the process group.
const stubborn = `trap "" TERM; echo $$
sh -c 'echo $$; while :; do sleep 0.05; done' &
while :; do sleep 0.05; done`

func eachStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("file", func(t *testing.T) { t.Parallel(); test(t, fileURL(t.TempDir())) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, servers.RedisURL(t)) })
}

// slack is how long an immediate event may take on a busy machine. Other tests check how late a store may be.
const slack = 3 * time.Second

// If anylock is killed, its command and the processes of the command are killed, and the key is free after the TTL.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url string) {
		const ttl = 6 * time.Second
		key := rand.Text()
		holder := startJob(t, url, key, stubborn, "--ttl", ttl.String(), "--verbose")
		group := holder.pids(2)[0]
		holder.says("the command runs") // on a busy machine the script may print before the guard knows the group
		next := startJob(t, url, key, "echo $$; exec sleep 600", "--ttl", "20")
		holder.signal(syscall.SIGKILL)
		killed := time.Now()
		if took := awaitEnd(t, group).Sub(killed); took > ttl/2 {
			t.Errorf("the command ended %v after anylock", took)
		}
		next.pids(1)
		if took := time.Since(killed); took > ttl+slack {
			t.Errorf("the next one got the key after %v, with a TTL of %v", took, ttl)
		}
	})
}

// If anylock is stopped, its lock expires, and the guard kills the command before that.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url string) {
		const ttl = 10 * time.Second // killMargin is one second of it
		key := rand.Text()
		// with a longer grace, anylock would renew more often
		holder := startJob(t, url, key, stubborn, "--ttl", ttl.String(), "--grace", "1", "--verbose")
		group := holder.pids(2)[0]
		holder.says("the command runs")
		leaseEnd(t, url, key, ttl*85/100) // anylock has just renewed, and does not renew again soon
		holder.signal(syscall.SIGSTOP)
		ends := leaseEnd(t, url, key, 0)
		next := startJob(t, url, key, "echo $$; exec sleep 600", "--ttl", "20")
		if left := ends.Sub(awaitEnd(t, group)); left < 0 {
			t.Errorf("the command ran on for %v after the end of the lease", -left)
		}
		next.pids(1)
		if took := time.Since(ends); took > slack {
			t.Errorf("the next one got the key %v after the end of the lease", took)
		}
		holder.signal(syscall.SIGCONT)
		holder.finish(exitLost)
		if said := holder.said(); strings.Count(said, "its lease ended") != 1 {
			t.Errorf("it said %q", said)
		}
		next.signal(syscall.SIGTERM) // next still has the lock
		next.finish(exitSignal + int(syscall.SIGTERM))
	})
}

// If the guard is stopped as well, as in a pause of the machine, the command is killed as soon as anylock continues.
func TestStoppedHolderAndGuard(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url string) {
		key := rand.Text()
		holder := startJob(t, url, key, stubborn, "--ttl", "6")
		group := holder.pids(2)[0]
		guard := guardOf(t, holder.cmd.Process.Pid)
		holder.signal(syscall.SIGSTOP) // otherwise anylock would replace the guard
		signalTo(t, guard, syscall.SIGSTOP)
		next := startJob(t, url, key, "echo $$; exec sleep 600", "--ttl", "20")
		next.pids(1)
		if !groupRuns(group) {
			t.Error("somebody has stopped the command: this proves nothing")
		}
		holder.signal(syscall.SIGCONT)
		resumed := time.Now()
		if took := awaitEnd(t, group).Sub(resumed); took > slack {
			t.Errorf("the command was stopped %v after the holder went on", took)
		}
		holder.finish(exitLost) // a guard that does not react does not delay anylock
		if said := holder.said(); strings.Count(said, "its lease ended") != 1 {
			t.Errorf("it said %q", said)
		}
	})
}

// If the store cannot be reached, every process of the command is dead before the lease ends by the store's clock.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		goAway func(*servers.Server)
		says   string
	}{
		{"frozen", (*servers.Server).Freeze, "no renewal has succeeded (store unavailable: no answer"},
		{"killed", (*servers.Server).Kill, "no renewal has succeeded (store unavailable: dial tcp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const ttl = 10 * time.Second // killMargin is one second of it
			server := servers.Redis(t)
			url, key := "redis://"+server.Addr, rand.Text()
			holder := startJob(t, url, key, stubborn, "--ttl", ttl.String(), "--grace", "0.5", "--lost-exit-code", "99")
			group := holder.pids(2)[0]
			ends := leaseEnd(t, url, key, ttl*85/100)
			test.goAway(server)
			// No renewal starts before a quarter of the TTL has passed. If this test took that long, a renewal may have
			// succeeded.
			if gone := time.Now(); gone.After(ends.Add(-ttl * 3 / 4)) {
				ends = gone.Add(ttl)
			}
			end := awaitEnd(t, group)
			if left := ends.Sub(end); left < 0 {
				t.Errorf("the command ran on for %v after the end of the lease", -left)
			} else {
				t.Logf("the command was dead %v before the end of the lease", left)
			}
			holder.finish(99)
			if said := holder.said(); !strings.Contains(said, test.says) {
				t.Errorf("it said %q", said)
			}
			for line := range strings.Lines(holder.said()) {
				if !strings.HasPrefix(line, "anylock: ") {
					t.Errorf("a client library said %q", line)
				}
			}
		})
	}
}

// leaseEnd waits until more than least remains of the lease on key, and returns the latest time at which the lease ends
// by the store's clock. Renewals start when a third of the TTL has passed, or a little earlier.
func leaseEnd(t *testing.T, url, key string, least time.Duration) time.Time {
	t.Helper()
	locks, err := lock.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	const poll = 10 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(poll) {
		h, err := locks.Ops().Inspect(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if now := time.Now(); h.TTL > least {
			return now.Add(h.TTL)
		} else if now.After(end) {
			t.Fatalf("no more than %v was seen to be left, but %v", least, h.TTL)
		}
	}
}

// If the store drops a lock, the next renewal notices the loss, and the command has its grace to clean up.
func TestDeletedKey(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	url, key := servers.RedisURL(t), rand.Text()
	holder := startJob(t, url, key, `trap 'sleep 0.2; echo 0; exit 0' TERM; echo $$; while :; do sleep 0.05; done`,
		"--ttl", ttl.String())
	group := holder.pids(1)[0]
	deleteKeys(t, url, "*"+key+"*")
	deleted := time.Now()
	end := awaitEnd(t, group)
	if took := end.Sub(deleted); took > ttl*3/4 {
		t.Errorf("the command ended %v after the key was deleted", took)
	}
	holder.finish(exitLost)
	holder.pids(2) // the command printed a second number in its clean-up, so it ended by itself
	if said := holder.said(); !strings.Contains(said, "the store no longer has it; stopping the command") {
		t.Errorf("it said %q", said)
	}
}

func deleteKeys(t *testing.T, url, pattern string) {
	t.Helper()
	options, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(options)
	defer client.Close()
	keys := client.Scan(t.Context(), 0, pattern, 1000).Iterator()
	deleted := 0
	for keys.Next(t.Context()) {
		deleted++
		if err := client.Del(t.Context(), keys.Val()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := keys.Err(); err != nil || deleted == 0 {
		t.Fatalf("deleted %d keys, error %v", deleted, err)
	}
}
