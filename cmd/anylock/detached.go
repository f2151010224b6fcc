package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

const detachedStores = `The store keeps the lease when anylock exits. memory:, postgres: and zookeeper:
cannot keep a lease, because it ends with its process, connection or session;
nor can a pair: with one of them. There anylock exits with 64: use "anylock
hold", "anylock run" or "anylock serve".`

func notResumable() error {
	return usagef("this store cannot return a lease to another process: use hold, run or serve")
}

// A detachedRecord is the output of acquire and renew for a lease.
type detachedRecord struct {
	leaseRecord
	// Left is how long the lease is exclusive, in seconds from the start of this command.
	Left float64 `json:"left_seconds"`
}

func (a *app) acquireCommand() *cobra.Command {
	r := &runner{app: a}
	r.ttl.d = defaultTTL
	format, export, label := newChoice("text", "json"), false, ""
	cmd := &cobra.Command{
		Use:   "acquire [flags] KEY",
		Short: "Acquire a lock and exit; then use renew and release",
		Long: `acquire acquires the lock KEY, prints the lease's owner, fencing token and time
left, and exits. The lease ends after --ttl unless "anylock renew" extends it:
choose a --ttl that is longer than the work, or renew after each third of --ttl.

` + detachedStores + `

The time left counts from the start of the command: read a clock before you
start anylock, and stop working when the time left has passed.

Check the exit code before you evaluate the output of --export. If the key is
held, there is no output, and eval "$(anylock acquire --export ...)" succeeds.

Exit codes: 0 acquired; 128 + N if signal N came before;
   1  somebody else holds the key (-n, -w; change it with -E)
  64  wrong usage, or the store cannot keep the lease
  69  the store cannot be reached
  74  the lease cannot be printed; it is released then`,
		Example: `  lease=$(anylock acquire --export --ttl 10m -w 60 deploy) || exit
  eval "$lease"
  ./deploy.sh --fence "$ANYLOCK_TOKEN"
  anylock release --owner "$ANYLOCK_OWNER" deploy`,
		Args: exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.key = args[0]
			err := r.checkTerms()
			if err == nil && cmd.Flags().Changed("label") {
				err = backend.ValidateLabel(label)
				r.label = label
			}
			if err == nil && export && strings.ContainsRune(r.key, 0) {
				err = errors.New("KEY has a NUL byte, which an environment variable cannot hold")
			}
			if err != nil {
				return usagef("%w", err)
			}
			return r.acquireDetached(cmd.Context(), func(record detachedRecord) error {
				if export {
					return writeExport(a, record)
				}
				return writeLease(a, record, format.is("json"))
			})
		},
	}
	r.termFlags(cmd.Flags())
	r.sharedFlag(cmd.Flags())
	cmd.Flags().StringVar(&label, "label", "", "show `TEXT` to others in the owner, in place of host and process id")
	cmd.Flags().Lookup("lost-exit-code").Hidden = true // this process does not watch the lease after the grant
	cmd.Flags().Var(format, "format", format.usage())
	cmd.Flags().BoolVar(&export, "export", false,
		"print shell commands that set $ANYLOCK_KEY, $ANYLOCK_OWNER and $ANYLOCK_TOKEN")
	cmd.MarkFlagsMutuallyExclusive("format", "export")
	return cmd
}

// acquireDetached acquires the lock, prints the lease, and keeps the lease at the store when anylock exits.
func (r *runner) acquireDetached(ctx context.Context, print func(detachedRecord) error) error {
	signals := r.begin()
	defer r.end()
	ctx, stop := untilSignal(ctx, signals)
	opts, err := r.options()
	if err != nil {
		return err
	}
	if r.label != "" {
		opts = append(opts, lock.WithOwnerLabel(r.label))
	}
	locks, err := r.app.open(ctx, append(opts, lock.WithoutRenewal())...)
	if err != nil {
		return cmp.Or(stop(), err)
	}
	defer locks.Close()
	if !locks.Resumable() {
		return notResumable()
	}
	lease, err := r.acquire(ctx, locks)
	if err != nil {
		return cmp.Or(stop(), err)
	}
	err = writeUntil(ctx, func() error { return print(newDetachedRecord(r.key, lease, r.began)) })
	if err = cmp.Or(stop(), err); err != nil {
		_ = lease.Release(ctx) // the caller may not know the owner; if this fails, the lease ends with its TTL
	}
	return err
}

func newDetachedRecord(key string, lease *lock.Lease, began time.Time) detachedRecord {
	record := detachedRecord{leaseRecord: leaseRecord{Key: key, Owner: lease.Owner()},
		Left: lease.Deadline().Sub(began).Seconds()}
	if token := lease.Token(); token != 0 {
		record.Token = &token
	}
	return record
}

func writeLease(a *app, record detachedRecord, json bool) error {
	if json {
		return writeJSON(a.stdout, record)
	}
	token := "none"
	if record.Token != nil {
		token = strconv.FormatUint(*record.Token, 10)
	}
	_, err := fmt.Fprintf(a.stdout, "owner %s\ntoken %s\nleft  %.3fs\n", show(record.Owner), token, record.Left)
	return err
}

// writeExport prints commands for the eval of a POSIX shell.
func writeExport(a *app, record detachedRecord) error {
	token := ""
	if record.Token != nil {
		token = strconv.FormatUint(*record.Token, 10)
	}
	_, err := fmt.Fprintf(a.stdout, "export %s=%s %s=%s %s=%s\n",
		keyVariable, shellWord(record.Key), ownerVariable, shellWord(record.Owner), tokenVariable, shellWord(token))
	return err
}

func (a *app) renewCommand() *cobra.Command {
	owner, ttl, format := "", seconds{d: defaultTTL}, newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "renew --owner OWNER [--ttl DURATION] KEY",
		Short: "Extend a lease from acquire",
		Long: `renew extends the lease that OWNER holds on KEY to --ttl from now, whichever
process acquired the lease, and prints the lease as acquire does. A --ttl that
is shorter than the time left shortens the lease.

` + detachedStores + `

Exit codes: 0 extended; 1 OWNER does not hold the key: the lease has ended, and
somebody else may hold the key; 64 wrong usage, or the store cannot keep the
lease; 69 the store cannot be reached: the lease is unchanged, or has been
extended; 74 the lease cannot be printed; 128 + N if signal N came before.`,
		Example: `  anylock renew --owner "$ANYLOCK_OWNER" --ttl 10m deploy`,
		Args:    exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkTTL("--ttl", ttl.d); err != nil {
				return usagef("%w", err)
			}
			began := time.Now()
			return a.resumed(cmd.Context(), args[0], owner, ttl.d, func(ctx context.Context, lease *lock.Lease) error {
				return writeUntil(ctx, func() error {
					return writeLease(a, newDetachedRecord(args[0], lease, began), format.is("json"))
				})
			})
		},
	}
	ownerFlag(cmd, &owner)
	cmd.Flags().Var(&ttl, "ttl", "how long the lease lasts from now")
	cmd.Flags().Var(format, "format", format.usage())
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	owner := ""
	cmd := &cobra.Command{
		Use:   "release --owner OWNER KEY",
		Short: "Release a lease from acquire",
		Long: `release releases the lease that OWNER holds on KEY, whichever process acquired
the lease. The next waiter gets the key.

` + detachedStores + `

Exit codes: 0 released; 1 OWNER does not hold the key: the lease had ended
before; 64 wrong usage, or the store cannot keep the lease; 69 the store cannot
be reached; 128 + N if signal N came before.`,
		Example: `  anylock release --owner "$ANYLOCK_OWNER" deploy`,
		Args:    exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resumed(cmd.Context(), args[0], owner, defaultTTL, func(ctx context.Context, lease *lock.Lease) error {
				return lease.Release(ctx)
			})
		},
	}
	ownerFlag(cmd, &owner)
	return cmd
}

func ownerFlag(cmd *cobra.Command, owner *string) {
	cmd.Flags().StringVar(owner, "owner", "", "the `OWNER` that acquire printed")
}

// resumed resumes the lease that owner holds on key, and calls f with it. The lease stays at the store unless f
// releases it.
func (a *app) resumed(
	ctx context.Context, key, owner string, ttl time.Duration, f func(context.Context, *lock.Lease) error,
) error {
	if owner == "" {
		return usagef("--owner is missing")
	}
	defer a.printInBackground()()
	ctx, stop := interruptible(ctx)
	err := a.resume(ctx, key, owner, ttl, f)
	if interrupt := stop(); err != nil {
		return cmp.Or(interrupt, err)
	}
	return nil
}

func (a *app) resume(
	ctx context.Context, key, owner string, ttl time.Duration, f func(context.Context, *lock.Lease) error,
) error {
	locks, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer locks.Close()
	if !locks.Resumable() {
		return notResumable()
	}
	terms := []lock.AcquireOption{lock.WithTTL(ttl), lock.WithoutRenewal()}
	lease, err := locks.Resume(ctx, key, owner, terms...)
	if errors.Is(err, lock.ErrLost) && locks.Guarantees().Shared { // the lease may be shared
		lease, err = locks.Resume(ctx, key, owner, append(terms, lock.Shared())...)
	}
	if err == nil {
		err = f(ctx, lease)
	}
	switch lerr := (*lock.Error)(nil); {
	case errors.Is(err, lock.ErrLost):
		a.say("%s: the lease of %s has ended", show(key), show(owner))
		return exitWith(exitFree)
	case errors.As(err, &lerr):
		return storeError(err)
	}
	return err // nil, or a failed write to standard output
}
