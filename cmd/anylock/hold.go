package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
)

func (a *app) holdCommand() *cobra.Command {
	r := &runner{app: a}
	r.ttl.d = defaultTTL
	cmd := &cobra.Command{
		Use:   "hold [flags] KEY",
		Short: "Hold a lock for a script or a program in another language",
		Long: `hold takes the lock KEY and prints one line of JSON when it has it. It keeps and renews the lock until its standard
input is closed or a signal arrives. Then it releases the lock.

The program that starts it keeps a pipe open to its standard input. If that program dies, the pipe closes and the lock is
released. If standard input is already at its end, as with /dev/null, hold ends at once.

If the lock is lost, hold says so on standard error and exits. It does not stop the program that started it: stop working
when hold exits.

Exit codes: 0 released; 128 + N released because of signal N;
   1  somebody else holds the key (-n, -w; change it with -E)
  64  wrong usage
  69  the store cannot be reached
 113  the lock was lost (change it with --lost-exit-code)`,
		Example: `  anylock hold deploy < pipe
  coproc anylock hold -w 10 deploy
  read -r lease <&"${COPROC[0]}" && ./deploy.sh
  exec {COPROC[1]}>&-`,
		Args: exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.key = args[0]
			if err := r.checkTerms(); err != nil {
				return usagef("%w", err)
			}
			return r.holdAlone(cmd.Context())
		},
	}
	r.termFlags(cmd.Flags())
	return cmd
}

// A leaseRecord is what hold prints of its lease.
type leaseRecord struct {
	Key   string  `json:"key"`
	Owner string  `json:"owner"`
	Token *uint64 `json:"token,string"` // a text, as in a holderRecord; null where the store has none
}

// holdAlone holds the lock until standard input ends, a signal comes, or the lock is lost.
func (r *runner) holdAlone(ctx context.Context) error {
	began := time.Now()
	signals, end := r.begin()
	defer end()
	opts, err := r.options()
	if err != nil {
		return err
	}
	ctx, stopWatch := untilSignal(ctx, signals)
	lease, closeStore, err := r.takeAlone(ctx, opts, began)
	if err != nil {
		if s := stopWatch(); s != nil {
			return s.exit()
		}
		return err
	}
	defer closeStore()
	record := leaseRecord{Key: r.key, Owner: lease.Owner()}
	if token := lease.Token(); token != 0 {
		record.Token = &token
	}
	err = encodeJSON(r.app.stdout, record, "")
	ended := make(chan struct{})
	go func() { // until the program ends
		_, _ = io.Copy(io.Discard, r.app.stdin)
		close(ended)
	}()
	if err == nil {
		select {
		case <-ended:
		case <-ctx.Done():
		case <-lease.Lost():
		}
	}
	s := stopWatch()
	released := lease.Release(context.Background())
	switch {
	case errors.Is(released, lock.ErrLost):
		r.say("the lock was lost")
		return exitWith(int(r.lostExitCode))
	case released != nil:
		r.say("release: %v; the lock ends by itself in %s at most", storeError(released), shortDuration(r.ttl.d))
	}
	if err == nil && s != nil {
		return s.exit()
	}
	return err
}

// takeAlone opens the store and takes the key.
func (r *runner) takeAlone(ctx context.Context, opts []lock.Option, began time.Time) (*lock.Lease, func() error, error) {
	locks, err := r.app.open(ctx, opts...)
	if err != nil {
		return nil, nil, err
	}
	lease, err := r.acquire(ctx, locks, began)
	if err != nil {
		return nil, nil, errors.Join(err, locks.Close())
	}
	return lease, locks.Close, nil
}
