package main

import (
	"cmp"
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/kit"
)

func (a *app) holdCommand() *cobra.Command {
	r := &runner{app: a}
	r.ttl.d = defaultTTL
	cmd := &cobra.Command{
		Use:   "hold [flags] KEY",
		Short: "Hold a lock for a script or a program in another language",
		Long: `hold acquires the lock KEY, prints one line of JSON, and renews the lock until
its standard input is closed or a signal arrives. Then it releases the lock.

The program that starts hold keeps a pipe open to hold's standard input. If the
program dies, the pipe closes and hold releases the lock. While hold waits for a
key that somebody else holds, the end of standard input ends the wait, with the
exit code of a held key. If standard input is already at its end, as with
/dev/null, hold acquires a free key and releases it at once.

If the lock is lost, hold reports the loss on standard error and exits. hold
does not stop the program that started it: stop working when hold exits.

Exit codes: 0 released; 128 + N released because of signal N;
   1  somebody else holds the key (-n, -w; change it with -E)
  64  wrong usage
  69  the store cannot be reached
  74  the line cannot be written
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
			return r.hold(cmd.Context())
		},
	}
	r.termFlags(cmd.Flags())
	r.modeFlags(cmd.Flags())
	return cmd
}

// A leaseRecord is the output of hold for its lease.
type leaseRecord struct {
	Key   string  `json:"key"`
	Owner string  `json:"owner"`
	Token *uint64 `json:"token,string"` // a string, as in a holderRecord; null if the store has no tokens
}

// hold holds the lock until standard input ends, a signal arrives, or the lock is lost.
func (r *runner) hold(ctx context.Context) error {
	signals := r.begin()
	defer r.end()
	ctx, stop := untilSignal(ctx, signals)
	ended := make(chan struct{})
	r.inputEnded = ended
	go func() { // ends with standard input or the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	lease, closeStore, err := r.openAndAcquire(ctx)
	if err != nil {
		return cmp.Or(stop(), err)
	}
	defer closeStore()
	record := leaseRecord{Key: r.keyOf(lease), Owner: lease.Owner()}
	if token := lease.Token(); token != 0 {
		record.Token = &token
	}
	err = r.writeRecord(ctx, lease, record)
	if err == nil {
		select {
		case <-ended:
		case <-ctx.Done():
		case <-lease.Lost():
		}
	}
	interrupted := stop()
	if r.release(lease) {
		r.say("the lock was lost")
		return exitWith(int(r.lostExitCode))
	}
	return cmp.Or(err, interrupted)
}

// writeRecord writes the line of hold. If nobody reads the output, it gives up when a signal arrives, the lock is lost,
// or shortly after standard input has ended.
func (r *runner) writeRecord(ctx context.Context, lease *lock.Lease, record leaseRecord) error {
	ctx, cancel := context.WithCancel(lease.Context(ctx))
	defer cancel()
	go func() {
		select {
		case <-r.inputEnded:
			_ = kit.Sleep(ctx, noticesPatience)
			cancel()
		case <-ctx.Done():
		}
	}()
	err := writeUntil(ctx, func() error { return encodeJSON(r.app.stdout, record, "") })
	if ctx.Err() != nil {
		return nil // hold ends for that reason
	}
	return err
}

// writeUntil calls write, which blocks if nobody reads the output, and returns its error, or that of ctx if ctx ends
// first.
func writeUntil(ctx context.Context, write func() error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	written := make(chan error, 1)
	go func() { written <- write() }() // a blocked goroutine ends with the program
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
