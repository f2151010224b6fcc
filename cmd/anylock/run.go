package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A runner is one call of run, hold or acquire.
type runner struct {
	app        *app
	notices    *notices
	end        func() // prints the remaining notices
	logHandler *lastErrorHandler

	key   string
	label string // the owner's label; only for acquire
	argv  []string

	ttl, wait, grace                 seconds
	minHold, maxHold                 seconds
	requested                        time.Duration // the TTL before limitTTL
	freeWithin                       time.Duration // how long the key may stay taken after a release that failed
	began, acquired                  time.Time
	inputEnded                       <-chan struct{} // closed when standard input ends; only for hold
	nonblock, noGuard, shared, quiet bool
	permits                          int // 0 if the key is a lock, not a semaphore
	conflictExit, lostExitCode       uint8
}

const (
	defaultTTL      = 30 * time.Second
	defaultMaxGrace = 10 * time.Second
	graceShare      = 3 // the default grace is at most TTL/graceShare
	// leastTTL leaves a few milliseconds for renewals in addition to the default grace and the margins.
	leastTTL = 10 * time.Millisecond
)

// runHelp is the long help text of run.
const runHelp = `run acquires the lock KEY, runs CMD without a shell, and releases the lock when
CMD exits. With -c, as in flock(1), it runs a line of /bin/sh.

The lock is a lease of --ttl, which anylock renews while CMD runs. The lease
expires by itself if this machine or process dies. If anylock cannot renew the
lease, CMD and its process group get SIGTERM, and then SIGKILL before the lease
ends, so that CMD never runs together with the next holder. If the store itself
drops the lease, anylock stops CMD in the same way, but the next holder may
already run.

CMD inherits standard input, output and error, and gets the signals that are
sent to anylock. Its environment has ANYLOCK_KEY, ANYLOCK_OWNER and
ANYLOCK_TOKEN, a fencing token that grows with every holder, and ANYLOCK_HELD,
the owners of this lock and of the locks around it. If CMD runs anylock for a
key that one of these owners holds, the inner anylock would wait forever, so it
exits as for a held key. With --shared on both, it gets the key, unless somebody
without --shared waits. A job that is stopped with Ctrl-Z for longer than the
TTL loses its lock, and is killed.

--min-hold keeps the lock after a short CMD, so that hosts whose clocks differ
do not run a cron job twice. anylock waits for that time, because some stores
free the key when the connection ends. If CMD fails after a signal that anylock
passed on, or the terminal's signal killed it, anylock does not wait.
--max-hold stops a CMD that hangs, as if the lock were lost.

With --shared, CMD runs beside other holders that use --shared, but never
beside a holder that does not. With --permits N, up to N holders run at once.
Each permit is a key of its own, KEY/permit/0 and so on, which ANYLOCK_KEY
names. Tokens increase for each permit alone. So --permits does not exclude
holders of KEY without --permits.

anylock refuses a store that excludes only one process, such as memory:.
--require and $ANYLOCK_REQUIRE name promises that the store must make; both
apply. The promises are fifo, push, linearizable, no-early-loss, reports-loss,
shared, fencing=restart, reach=network, max-late=500ms, min-ttl=1s, max-ttl=1h,
max-silence=1m and max-leases=100, also with other values.

A second process, "lock-guard", kills CMD's process group if anylock itself is
killed, or is stopped at the end of the lease. The guard starts before anylock
waits for the lock. If the guard is killed or stopped, anylock starts another;
if that fails, anylock stops CMD. Without a guard, anylock does not run CMD,
unless --no-guard is given. If both processes are killed at once, as by the
out-of-memory killer or with a control group, or are frozen together, nobody
kills CMD's process group; on Linux and FreeBSD, CMD itself, but not its
children, still ends with anylock. On Windows, a job object does all this, and
there is no second process.

If CMD exits by itself, its background processes continue without the lock.
anylock cannot find processes that have changed their process group.

If CMD ends after anylock passed SIGTERM, SIGINT, SIGHUP or SIGQUIT on to it,
or if a signal from anylock or the terminal killed it, anylock keeps the lock
until every process of CMD's process group has ended. When CMD has been dead
for --grace, anylock kills the rest with SIGKILL, and then releases the lock.
CMD itself may take as long as the lock lasts.

anylock cannot stop processes that run as another user, as with sudo inside
CMD, and warns if there is one. If a signal ends CMD and such a process still
runs in its group, anylock keeps the lock until that process has ended. But if
the lock is lost, anylock is killed, or CMD exits by itself, such a process
continues, together with the next holder. So run anylock itself under sudo:
sudo anylock run ...

Exit codes: that of CMD, or 128 + N if signal N ended CMD or came before it ran,
or if Ctrl-C ended the wait of --min-hold;
   1  somebody else holds the key (-n, -w; change it with -E)
  64  wrong usage
  69  the store cannot be reached
  71  the guard process cannot be started (see --no-guard)
 113  the lock was lost, --max-hold ended, or the guard could not be replaced,
      while CMD ran (change it with --lost-exit-code)
 126  CMD cannot be executed
 127  CMD is not found`

func (a *app) runCommand() *cobra.Command {
	r := &runner{app: a}
	r.ttl.d = defaultTTL
	cmd := &cobra.Command{
		Use:   "run [flags] KEY {[--] CMD [ARG...] | -c LINE}",
		Short: "Run a command while holding a lock",
		Long:  runHelp,
		Example: `  anylock run nightly -- ./nightly.sh --full
  anylock run -n -E 75 nightly -- ./nightly.sh  # 75: it already runs
  anylock run -w 2.5 -E 75 --backend redis://cache-1:6379 deploy -- make deploy
  anylock run -n --min-hold 1m --require reach=network nightly -- ./nightly.sh
  anylock run --ttl 1m --grace 20s db -c 'migrate --fence "$ANYLOCK_TOKEN"'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.check(args); err != nil {
				return usagef("%w", err)
			}
			return r.run(cmd.Context())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && unknown.GetSpecifiedName() == "c" {
			return errors.New("-c must come after KEY, as in: anylock run KEY -c LINE")
		}
		return err
	})
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after KEY belong to the command
	r.termFlags(flags)
	r.modeFlags(flags)
	flags.Var(&r.minHold, "min-hold", "keep the key for at least this long, even if the command ends sooner")
	flags.Var(&r.maxHold, "max-hold", "stop the command before it has held the key for this long (default never)")
	flags.BoolVar(&r.noGuard, "no-guard", false,
		"run without the second process that kills the command if this one is killed or stopped")
	flags.Var(&r.grace, "grace", "time between SIGTERM and SIGKILL when the lock is lost, and for the rest of the group "+
		"after a signal has ended the command (default a third of --ttl, 10s at most)")
	return cmd
}

// check validates the arguments and flags before anything is done.
func (r *runner) check(args []string) (err error) {
	if r.key, r.argv, err = splitCommand(args); err != nil {
		return err
	}
	if strings.ContainsRune(r.key, 0) {
		return errors.New("KEY has a NUL byte, which an environment variable cannot hold")
	}
	if err := r.checkTerms(); err != nil {
		return err
	}
	if r.maxHold.d > 0 && r.maxHold.d < r.ttl.d {
		r.ttl.d = r.maxHold.d
		if r.ttl.d < leastTTL {
			return fmt.Errorf("--max-hold %v is too short: %v at least", r.maxHold.d, leastTTL)
		}
		return r.checkGrace("--max-hold")
	}
	return r.checkGrace("--ttl")
}

// checkGrace sets the default grace if none was given. It refuses a grace that leaves no time to renew; ttl names the
// limit in the message.
func (r *runner) checkGrace(ttl string) error {
	if !r.grace.isSet {
		r.grace.d = min(defaultMaxGrace, r.ttl.d/graceShare)
	}
	if most := maxGrace(r.ttl.d); r.grace.d > most {
		return fmt.Errorf("--grace %v leaves no time to renew a lease of %s %v: %v at most", r.grace.d, ttl, r.ttl.d, most)
	}
	return nil
}

// limitTTL limits the TTL to Guarantees.MaxSilence, because no deadline is ever further away. The store keeps the TTL
// that was requested.
func (r *runner) limitTTL(g lock.Guarantees) error {
	r.requested = r.ttl.d
	if g.MaxSilence == 0 || r.ttl.d <= g.MaxSilence {
		return nil
	}
	r.ttl.d = g.MaxSilence
	if err := r.checkGrace("the store's longest silence,"); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// begin starts to receive the signals that end us, and to collect notices until the caller calls end.
func (r *runner) begin() (signals chan os.Signal) {
	const queued = 16
	r.began = time.Now()
	signals = make(chan os.Signal, queued)
	notify(signals, signalsEnding)
	notify(make(chan os.Signal, 1), signalsOfPipes) // nobody receives them: only their default action is prevented
	r.end = r.app.printInBackground()
	r.notices = r.app.notices
	r.logHandler = newLastErrorHandler(r.notices, r.app.verbose)
	return signals
}

// openAndAcquire opens the store and acquires the key. Call closeStore after the release.
func (r *runner) openAndAcquire(ctx context.Context) (lease *lock.Lease, closeStore func(), err error) {
	opts, err := r.options()
	if err != nil {
		return nil, nil, err
	}
	locks, err := r.app.open(ctx, opts...)
	if err != nil {
		return nil, nil, err
	}
	closeStore = func() { locks.Shutdown(context.Background()) }
	g := locks.Guarantees()
	if err = r.limitTTL(g); err == nil {
		r.freeWithin = g.Round(max(r.ttl.d, r.minHold.d+2*backend.Margin(r.minHold.d))) + g.MaxLate
		lease, err = r.acquire(ctx, locks)
	}
	if err != nil {
		closeStore()
	}
	return lease, closeStore, err
}

// run holds the lock while the command runs. When run returns, no process that it started is left, except processes
// that the command itself left in the background.
func (r *runner) run(ctx context.Context) error {
	file, err := findCommand(r.argv[0])
	if err != nil {
		return err
	}
	signals := r.begin()
	defer r.end()
	notify(signals, signalsPassed)
	defer reapOrphans()()
	guard, err := r.startGuard()
	if err != nil {
		return err
	}
	defer guard.dismiss()
	ctx, stop := untilSignal(ctx, signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(guard.context(), cancel)()
	lease, closeStore, err := r.openAndAcquire(ctx)
	interrupted := stop()
	if err != nil {
		return cmp.Or(interrupted, guardFailure(guard), err)
	}
	defer closeStore()
	if interrupted != nil {
		return r.finish(lease, outcome{}, false, interrupted)
	}
	r.sayVerbose("acquired after %s, token %d", shortDuration(time.Since(r.began)), lease.Token())
	r.acquired = time.Now()
	out, err := r.execute(lease, file, guard, signals)
	ended := out.signaled && out.code != exitOK // a command that exits with 0 in spite of a signal has done its work
	waitedMinHold := err == nil && !out.lost && !ended && r.awaitMinHold(lease, signals, &out)
	return r.finish(lease, out, waitedMinHold, err)
}

// execute runs the command while the lease is held.
func (r *runner) execute(l *lock.Lease, file string, guard *guard, signals chan os.Signal) (outcome, error) {
	if l.Err() != nil { // this process did not run for a while
		r.say("the lock was lost before the command could run")
		return outcome{lost: true}, nil
	}
	if err := guardFailure(guard); err != nil {
		return outcome{}, err
	}
	c, err := startChild(program{
		file: file, argv: r.argv, env: childEnv(os.Environ(), r.keyOf(l), l.Owner(), l.Token()),
		ttl: r.ttl.d, deadline: l.Deadline, guard: guard,
	}, signals)
	if err != nil {
		return outcome{}, startError(r.argv[0], execError(file, err))
	}
	defer c.close()
	r.sayVerbose("the command runs")
	stop := renewEarly(l, r.requested, r.ttl.d, r.grace.d)
	defer stop()
	s := &supervisor{
		lease: l, child: c, signals: signals, ttl: r.ttl.d, grace: r.grace.d, maxHold: r.maxHold.d, say: r.say,
		lastError: r.logHandler.lastError, guarded: guard.context(),
	}
	return s.run(), nil
}

// finish releases the lease, reports problems, and returns the exit error. err is the error of a command that did not
// run.
func (r *runner) finish(l *lock.Lease, out outcome, waitedMinHold bool, err error) error {
	lost := r.release(l)
	switch {
	case out.lost:
		return exitWith(int(r.lostExitCode))
	case err != nil:
		return err
	case lost && waitedMinHold:
		r.say("the lock was lost before --min-hold was over, but after the command")
	case lost:
		r.say("the lock was lost while the command ran")
		return exitWith(int(r.lostExitCode))
	}
	if out.code != exitOK || out.interrupt != noInterrupt {
		return &exitError{code: out.code, interrupt: out.interrupt}
	}
	return nil
}

// release releases the lease. It reports whether the lease had been lost before.
func (r *runner) release(l *lock.Lease) (lost bool) {
	switch err := l.Release(context.Background()); {
	case errors.Is(err, lock.ErrLost):
		return true
	case err != nil:
		r.say("release: %v; the lock ends by itself in %s at most", storeError(err), shortDuration(r.freeWithin))
	default:
		r.sayVerbose("released")
	}
	return false
}

// awaitMinHold keeps the lease until --min-hold has passed or a signal arrives, because some stores end the lease with
// our connection. It reports whether there was time left to wait. It sets the interrupt of out if that ends the wait.
func (r *runner) awaitMinHold(l *lock.Lease, signals <-chan os.Signal, out *outcome) bool {
	left := r.minHold.d - time.Since(r.acquired)
	if left <= 0 || l.Err() != nil {
		return false
	}
	r.sayVerbose("the key stays taken for %s", shortDuration(left))
	ctx, stop := untilSignal(l.Context(context.Background()), signals)
	_ = kit.Sleep(ctx, left)
	out.interrupt = interruptOf(stop())
	return true
}

// say prints a line about this key in the background. It never waits for the reader of the output.
func (r *runner) say(format string, args ...any) {
	r.notices.add(show(r.key) + ": " + fmt.Sprintf(format, args...))
}

func (r *runner) sayVerbose(format string, args ...any) {
	if r.app.verbose {
		r.say(format, args...)
	}
}
