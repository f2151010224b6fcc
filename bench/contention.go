package bench

import (
	"context"
	"time"
)

// How many workers there are unless Options.Workers says otherwise.
const (
	workersOfOne  = 64 // client
	workersOfEach = 8
)

func serial(ctx context.Context, t *trial) error {
	c, err := t.open(ctx, t.ttl())
	if err != nil {
		return err
	}
	return t.cycles(ctx, []*worker{{client: c, key: newKey()}})
}

func distinct(ctx context.Context, t *trial) error {
	c, err := t.open(ctx, t.ttl())
	if err != nil {
		return err
	}
	var workers []*worker
	for range t.number(t.Workers, workersOfOne) {
		workers = append(workers, &worker{client: c, key: newKey()})
	}
	return t.cycles(ctx, workers)
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

func hotClients(ctx context.Context, t *trial) error {
	clients, err := t.openSeveral(ctx, t.Clients)
	if err != nil {
		return err
	}
	workers, key := t.Workers, newKey()
	if workers == 0 {
		workers = workersOfEach
	}
	hold := t.holding(time.Millisecond)
	var all []*worker
	for _, c := range clients {
		for range workers {
			all = append(all, &worker{client: c, key: key, hold: hold})
		}
	}
	return t.cycles(ctx, all)
}
