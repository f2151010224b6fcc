package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	paramNamespace = backend.ParamPrefix + "namespace"
	paramMode      = backend.ParamPrefix + "mode"
	paramMaxLeases = backend.ParamPrefix + "max_leases"
	paramShare     = backend.ParamPrefix + "share"
	paramDurable   = backend.ParamPrefix + "durable"
	paramTimeout   = backend.ParamPrefix + "timeout"
)

var params = map[string]string{
	paramNamespace: "part of the hash of every key; default anylock",
	paramMode:      "session (default), or transaction for poolers such as PgBouncer in transaction pooling",
	paramMaxLeases: "most leases held or waited for, each with its own connection unless they share; default 32",
	paramShare:     "leases with a TTL up to this, as in 10s, share connections; a frozen holder's key may then be late by as much; default 0",
	paramDurable:   "true: tokens also increase across a crash of the server, at the cost of flushing its log for each transaction id",
	paramTimeout:   "time limit for one request; default 2s",
}

func init() {
	backend.Register(backend.Driver{
		Name:    "postgres",
		Schemes: []string{"postgres", "postgresql"},
		Examples: []string{
			"postgres://user:password@localhost:5432/database",
			"postgres://user:password@h1:5432,h2:5432/database?target_session_attrs=primary",
			"postgres://user:password@pgbouncer:6432/database?lock_mode=transaction",
		},
		Params:     params,
		Guarantees: guarantees(Options{MaxLeases: defaultLeases}),
		Findings:   backend.Findings(rules),
		RoundTrips: backend.RoundTrips{Acquire: "1", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, rawURL string) (backend.Backend, error) { return open(ctx, rawURL) },
	})
}

func open(ctx context.Context, rawURL string) (*Backend, error) {
	rest, values, err := backend.TakeParams(rawURL, slices.Sorted(maps.Keys(params))...)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(values)
	if err != nil {
		return nil, err
	}
	config, err := parseURL(rest)
	if err != nil {
		return nil, err
	}
	b, err := New(ctx, config, &o)
	if err != nil {
		return nil, backend.CleanError(rawURL, err)
	}
	return b, nil
}

func parseOptions(values map[string]string) (o Options, err error) {
	for name, value := range values {
		if err := o.set(name, value); err != nil {
			return o, fmt.Errorf("%w: url: parameter %q: %v", backend.ErrInvalid, name, err)
		}
	}
	_, err = o.validate()
	return o, err
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case paramNamespace:
		o.Namespace = value
	case paramMode:
		switch value {
		case "session":
			o.Mode = ModeSession
		case "transaction":
			o.Mode = ModeTransaction
		default:
			err = fmt.Errorf("%q is neither session nor transaction", value)
		}
	case paramMaxLeases:
		if o.MaxLeases, err = strconv.Atoi(value); err == nil && o.MaxLeases <= 0 { // 0 would mean the default
			err = fmt.Errorf("%d is not positive", o.MaxLeases)
		}
	case paramDurable:
		o.Durable, err = strconv.ParseBool(value)
	case paramShare:
		o.Share, err = time.ParseDuration(value)
	case paramTimeout:
		if o.Timeout, err = time.ParseDuration(value); err == nil && o.Timeout <= 0 {
			err = fmt.Errorf("%v is not positive", o.Timeout)
		}
	}
	return err
}
