package bench

import (
	"context"
	"time"
)

const (
	onlyReads = 10 // of ten cycles
	mostReads = 9
)

// readers is distinct with one key that all workers share. The comparison of the two shows the cost of sharing a key.
func readers(ctx context.Context, t *trial) error {
	c, err := t.open(ctx, t.ttl())
	if err != nil {
		return err
	}
	key := newKey()
	var all []*worker
	for range t.number(t.Workers, workersOfOne) {
		all = append(all, &worker{client: c, key: key, reads: onlyReads})
	}
	return t.cycles(ctx, all)
}

// readersWriter measures how long one writer waits while readers come and go. Without a fair queue the writer might
// wait forever.
func readersWriter(ctx context.Context, t *trial) error {
	clients, err := t.openSeveral(ctx, t.Clients)
	if err != nil {
		return err
	}
	writer, err := t.open(ctx, t.ttl())
	if err != nil {
		return err
	}
	key, hold := newKey(), t.holding(time.Millisecond)
	all := []*worker{{client: writer, key: key, hold: hold}}
	for i := range t.number(t.Workers, workersOfOne) - 1 {
		all = append(all, &worker{client: clients[i%t.Clients], key: key, hold: hold, reads: onlyReads, hidden: true})
	}
	return t.cycles(ctx, all)
}

// readersWriters measures how writers share a key with a stream of readers. Each client has one writer, and its other
// workers read.
func readersWriters(ctx context.Context, t *trial) error {
	clients, err := t.openSeveral(ctx, t.Clients)
	if err != nil {
		return err
	}
	workers := t.Workers
	if workers == 0 {
		workers = workersOfEach
	}
	key, hold := newKey(), t.holding(time.Millisecond)
	var all []*worker
	for _, c := range clients {
		all = append(all, &worker{client: c, key: key, hold: hold})
		for range workers - 1 {
			all = append(all, &worker{client: c, key: key, hold: hold, reads: onlyReads, hidden: true})
		}
	}
	return t.cycles(ctx, all)
}

func mixed(ctx context.Context, t *trial) error {
	clients, err := t.openSeveral(ctx, t.Clients)
	if err != nil {
		return err
	}
	workers := t.Workers
	if workers == 0 {
		workers = workersOfEach
	}
	key, hold := newKey(), t.holding(time.Millisecond)
	var all []*worker
	for _, c := range clients {
		for range workers {
			all = append(all, &worker{client: c, key: key, hold: hold, reads: mostReads})
		}
	}
	return t.cycles(ctx, all)
}
