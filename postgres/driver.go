package postgres

import (
	"context"
	"fmt"

	"github.com/anylock/lock/backend"
)

const (
	paramMode      = backend.ParamPrefix + "mode"
	paramMaxLeases = backend.ParamPrefix + "max_leases"
	paramShare     = backend.ParamPrefix + "share"
	paramDurable   = backend.ParamPrefix + "durable"
)

func init() {
	backend.Register(backend.Driver{
		Name: "postgres",
		// Hosts stay as they are written: they may be sockets, and pgx knows ports of its own.
		URLs: []backend.URLForm{
			{Scheme: "postgres", Hosts: backend.ManyHosts, User: true, Path: backend.OptionalPath},
			{Scheme: "postgresql", Hosts: backend.ManyHosts, User: true, Path: backend.OptionalPath},
		},
		Params: []backend.Param{
			backend.TimeoutParam(defaultTimeout),
			{Name: paramMode, OneOf: []string{"session", "transaction"},
				Help: "session, the default, or transaction for poolers such as PgBouncer in transaction pooling"},
			{Name: paramMaxLeases, Type: backend.Number, Min: leastLeases, Max: mostLeases,
				Help: fmt.Sprintf("most leases held or waited for, each on a connection unless they share; default %d", defaultLeases)},
			{Name: paramShare, Type: backend.Duration,
				Help: "leases with a TTL up to this share connections; a frozen holder's key may be late by as much; default none"},
			{Name: paramDurable, OneOf: []string{"true", "false"},
				Help: "true: tokens also increase across a crash of the server; costs a flush of its log for each transaction id"},
		},
		OtherParams: "pgx",
		Examples: []string{
			"postgres://user:password@localhost:5432/database",
			"postgres://user:password@h1:5432,h2:5432/database?target_session_attrs=primary",
			"postgres://user:password@pgbouncer:6432/database?lock_mode=transaction",
		},
		Guarantees: guarantees(Options{MaxLeases: defaultLeases}),
		Findings:   backend.Findings(rules),
		RoundTrips: backend.RoundTrips{Acquire: "1", Renew: "1", Release: "1"},
		Open: func(ctx context.Context, u backend.URL) (backend.Backend, error) {
			o := optionsOf(u)
			if _, err := o.validate(); err != nil {
				return nil, err
			}
			config, err := configOf(u)
			if err != nil {
				return nil, err
			}
			b, err := New(ctx, config, &o)
			if err != nil {
				return nil, err
			}
			return b, nil
		},
	})
}

func optionsOf(u backend.URL) Options {
	o := Options{
		MaxLeases: int(u.Number(paramMaxLeases)),
		Share:     u.Duration(paramShare),
		Durable:   u.Text(paramDurable) == "true",
		Timeout:   u.Duration(backend.ParamTimeout),
	}
	if u.Text(paramMode) == "transaction" {
		o.Mode = ModeTransaction
	}
	return o
}
