package postgres

import (
	"context"
	"fmt"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/pgurl"
)

const (
	paramMaxLeases = driver.ParamPrefix + "max_leases"
	paramDurable   = driver.ParamPrefix + "durable"
)

func init() {
	driver.Register(driver.Driver{
		Name: "postgres",
		// Hosts are passed to pgx unchanged: they may be sockets, and pgx has its own default port.
		URLs: []driver.URLForm{
			{Scheme: "postgres", Hosts: driver.ManyHosts, User: true, Path: driver.OptionalPath},
			{Scheme: "postgresql", Hosts: driver.ManyHosts, User: true, Path: driver.OptionalPath},
		},
		Params: []driver.Param{
			driver.TimeoutParam(defaultTimeout),
			{Name: paramMaxLeases, Type: driver.Number, Min: leastLeases, Max: mostLeases,
				Help: fmt.Sprintf("most leases held or waited for, each on its own connection; default %d", defaultLeases)},
			{Name: paramDurable, Type: driver.Bool,
				Help: "true: tokens also increase across a crash of the server; costs a flush of its log for each transaction id"},
		},
		OtherParams: "pgx",
		Examples: []string{
			"postgres://user:password@localhost:5432/database",
			"postgres://user:password@h1:5432,h2:5432/database?target_session_attrs=primary",
		},
		Guarantees: guarantees(Options{MaxLeases: defaultLeases}),
		Findings:   kit.Findings(rules),
		RoundTrips: driver.RoundTrips{Acquire: "1", Renew: "1", Release: "1"},
		Open: func(ctx context.Context, u driver.URL) (backend.Backend, error) {
			o := optionsOf(u)
			if _, err := o.validate(); err != nil {
				return nil, err
			}
			config, err := pgurl.Config(u)
			if err != nil {
				return nil, err
			}
			return New(ctx, config, &o)
		},
	})
}

func optionsOf(u driver.URL) Options {
	return Options{
		MaxLeases: int(u.Number(paramMaxLeases)),
		Durable:   u.Text(paramDurable) == "true",
		Timeout:   u.Duration(driver.ParamTimeout),
	}
}
