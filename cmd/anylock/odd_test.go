package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// mainOdd is main with more stores. "forgetful" grants every key to everybody. "unsure" never knows whether it has
// released a lease. "coarse" does not know it either, rounds TTLs up and frees keys late. "hanging" never responds.
// "simple" makes few promises and keeps them. "loser" reports every lease as lost when it is released.
func mainOdd() {
	registerOdd("forgetful", func() backend.Backend { return everybody{memory.New()} })
	registerOdd("unsure", func() backend.Backend {
		return &released{memory.New(), errors.New("connection reset\nby peer")}
	})
	registerOdd("coarse", func() backend.Backend { return coarse{&released{memory.New(), errors.New("reset")}} })
	registerOdd("hanging", func() backend.Backend { return hanging{memory.New()} })
	simply := memory.NewStore()
	registerOdd("simple", func() backend.Backend { return simple{simply.Client()} })
	registerOdd("loser", func() backend.Backend { return &released{memory.New(), backend.ErrLost} })
	main()
}

func registerOdd(name string, open func() backend.Backend) {
	driver.Register(driver.Driver{
		Name: name, URLs: []driver.URLForm{{Scheme: name}}, Examples: []string{name + ":"},
		Open: func(context.Context, driver.URL) (backend.Backend, error) { return farther{open()}, nil },
	})
}

// farther promises that the processes of one host exclude each other, which "anylock run" requires.
type farther struct{ backend.Backend }

func (f farther) Guarantees() backend.Guarantees {
	g := f.Backend.Guarantees()
	g.Reach = backend.ReachHost
	return g
}

// hanging never grants. A request that waits lasts until its context ends; any other request times out.
type hanging struct{ backend.Backend }

func (hanging) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if !r.Wait {
		return nil, fmt.Errorf("%w: i/o timeout", backend.ErrUnavailable)
	}
	<-ctx.Done()
	return nil, kit.ContextError(ctx, nil)
}

type coarse struct{ backend.Backend }

func (c coarse) Guarantees() backend.Guarantees {
	g := c.Backend.Guarantees()
	g.MinTTL, g.MaxLate = 2*time.Second, 3*time.Second
	return g
}

type everybody struct{ backend.Backend }

func (b everybody) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return memory.New().Acquire(ctx, r)
}

type simple struct{ *memory.Backend }

func (s simple) Guarantees() backend.Guarantees {
	g := s.Backend.Guarantees()
	g.FIFO, g.Wake = false, backend.WakePoll
	return g
}

type released struct {
	backend.Backend
	err error
}

func (b *released) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := b.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return &releasedLease{l, b.err}, nil
}

type releasedLease struct {
	backend.Lease
	err error
}

func (l *releasedLease) Release(ctx context.Context) error {
	return errors.Join(l.Lease.Release(ctx), l.err)
}
