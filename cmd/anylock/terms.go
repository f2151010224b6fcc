package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

const requireEnv = "ANYLOCK_REQUIRE" // guarantees that the store must have, as in --require

// termFlags adds the flags for how the lock is acquired and held.
func (r *runner) termFlags(flags *pflag.FlagSet) {
	flags.Var(&r.ttl, "ttl", "how long the key stays taken if its holder dies")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "print nothing if somebody else holds the key")
	flags.BoolVarP(&r.nonblock, "nonblock", "n", false, "exit at once if the key is held")
	flags.VarP(&r.wait, "wait", "w", "wait at most this long: seconds, as in 2.5, or a duration like 1m30s")
	flags.Uint8VarP(&r.conflictExit, "conflict-exit-code", "E", exitConflict,
		"exit with `CODE` if somebody else holds the key")
	flags.Uint8Var(&r.lostExitCode, "lost-exit-code", exitLost, "exit with `CODE` if the lock is lost")
	flags.StringArrayVar(&r.app.require, "require", nil,
		"refuse a store that does not promise `GUARANTEE`, or several separated by commas; may be repeated (see also "+
			"$ANYLOCK_REQUIRE)")
}

// modeFlags adds the flags that let several holders have the key at once.
func (r *runner) modeFlags(flags *pflag.FlagSet) {
	r.sharedFlag(flags)
	flags.IntVar(&r.permits, "permits", 0,
		"let `N` holders hold the key at once; all holders must use --permits with the same N")
}

func (r *runner) sharedFlag(flags *pflag.FlagSet) {
	flags.BoolVarP(&r.shared, "shared", "s", false,
		"share the key with other holders that use --shared")
}

// checkTerms validates the key and the flags of termFlags and modeFlags.
func (r *runner) checkTerms() error {
	if err := backend.ValidateKey(r.key); err != nil {
		return fmt.Errorf("KEY: %w", err)
	}
	if r.nonblock && r.wait.isSet {
		return errors.New("-n and -w cannot be combined")
	}
	if r.shared && r.permits > 0 {
		return errors.New("--shared and --permits cannot be combined")
	}
	if r.permits < 0 {
		return fmt.Errorf("--permits %d: at least 1 is needed", r.permits)
	}
	if r.wait.isSet && r.wait.d == 0 {
		r.nonblock = true
	}
	return checkTTL("--ttl", r.ttl.d)
}

// checkTTL validates the TTL that a flag sets.
func checkTTL(flag string, ttl time.Duration) error {
	if err := backend.ValidateTTL(ttl); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if ttl < leastTTL {
		return fmt.Errorf("%s %v is too short to renew the lease in time: %v at least", flag, ttl, leastTTL)
	}
	return nil
}

// options returns the options of the Locker.
func (r *runner) options() ([]lock.Option, error) {
	opts := []lock.Option{
		lock.WithTTL(r.ttl.d), lock.WithLogger(slog.New(r.logHandler)),
		lock.Require(lock.Need{Reach: lock.ReachHost, Shared: r.shared}),
	}
	if r.minHold.d > 0 {
		opts = append(opts, lock.WithMinHold(r.minHold.d))
	}
	if r.maxHold.d > 0 {
		opts = append(opts, lock.WithMaxHold(r.maxHold.d))
	}
	needs, err := r.app.needs()
	if err != nil {
		return nil, err
	}
	for _, need := range needs {
		opts = append(opts, lock.Require(need))
	}
	return opts, nil
}

// needs returns what --require and $ANYLOCK_REQUIRE demand of the store.
func (a *app) needs() ([]lock.Need, error) {
	lists := a.require
	if env := envText(requireEnv); env.isSet {
		lists = append(slices.Clip(lists), env.s)
	}
	needs := make([]lock.Need, len(lists))
	for i, list := range lists {
		err := needs[i].UnmarshalText([]byte(list))
		if err == nil && list == "" {
			err = errors.New("names no guarantee")
		}
		if err != nil {
			return nil, usagef("--require or $%s: %w", requireEnv, err)
		}
	}
	return needs, nil
}

// hostIsEnough reports whether the user has said that locks need not reach further than this machine.
func (a *app) hostIsEnough() bool {
	needs, _ := a.needs() // run, hold and acquire report the error
	return slices.ContainsFunc(needs, func(n lock.Need) bool { return n.Reach == lock.ReachHost })
}
