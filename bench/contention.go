package bench

import (
	"context"
	"time"
)

// The numbers of workers if Options.Workers is 0.
const (
	workersOfOne  = 64 // of a single client
	workersOfEach = 8
)

func serial(ctx context.Context, t *trial) error {
	c, err := t.open(ctx, t.ttl())
	if err != nil {
		return err
	}
	return t.cycles(ctx, []*worker{{client: c, key: newKey()}})
}

// distinct has n workers, or as many as the options specify if n is 0.
func distinct(n int) run {
	return func(ctx context.Context, t *trial) error {
		c, err := t.open(ctx, t.ttl())
		if err != nil {
			return err
		}
		asked := t.Workers
		if n > 0 {
			asked = n
		}
		var workers []*worker
		for range t.number(asked, workersOfOne) {
			workers = append(workers, &worker{client: c, key: newKey()})
		}
		return t.cycles(ctx, workers)
	}
}

func hotLocal(ctx context.Context, t *trial) error {
	c, err := t.open(ctx, t.ttl())
	if err != nil {
		return err
	}
	workers, key := t.Workers, newKey()
	if workers == 0 {
		workers = workersOfOne
	}
	hold := t.holding(0)
	var all []*worker
	for range workers {
		all = append(all, &worker{client: c, key: key, hold: hold})
	}
	return t.cycles(ctx, all)
}

// hotClients uses the number of workers per client and the hold of the options, or usual and usualHold if the options
// specify none. If usual is 1, each client always has one worker.
func hotClients(usual int, usualHold time.Duration) run {
	return func(ctx context.Context, t *trial) error {
		clients, err := t.openSeveral(ctx, t.Clients)
		if err != nil {
			return err
		}
		workers, key := t.Workers, newKey()
		if workers == 0 || usual == 1 {
			workers = usual
		}
		hold := t.holding(usualHold)
		var all []*worker
		for _, c := range clients {
			for range workers {
				all = append(all, &worker{client: c, key: key, hold: hold})
			}
		}
		return t.cycles(ctx, all)
	}
}
