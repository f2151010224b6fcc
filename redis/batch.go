package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

const (
	scriptLeases    = 64   // the most leases in one run of the script, which blocks the server for some 0.1 ms
	pipelineScripts = 1024 // the most scripts in one pipeline
)

// RenewBatch implements [backend.BatchRenewer]: leases are renewed by the dozen in one script, scripts by the hundred in
// one pipeline. In a cluster a script covers the leases of one slot, and a pipeline those of one server.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.sendBatch)
}

// A share is the part of a batch that one script renews.
type share struct {
	index    []int // of its leases in the batch
	renewals []*renewal
	ttl      time.Duration // the shortest
}

func (b *Backend) sendBatch(ctx context.Context, lives []*backend.Life, ttls []time.Duration) ([]time.Duration, []error) {
	granted, errs := make([]time.Duration, len(lives)), make([]error, len(lives))
	todo := make([]int, len(lives))
	copy(granted, ttls)
	for i := range todo {
		todo[i] = i
	}
	// A second round for what has failed in a way that passes.
	for range 2 {
		b.sendPipelines(ctx, b.pipelines(ctx, b.shares(lives, granted, todo, errs)), errs)
		var failed []int
		for _, i := range todo {
			if errs[i] != nil && ctx.Err() == nil && (passing(errs[i]) || isCrossSlot(errs[i])) {
				failed = append(failed, i)
			}
		}
		if todo = failed; len(todo) == 0 {
			break
		}
	}
	return granted, errs
}

// shares cuts the leases of todo into scripts. What a slot that is moving has refused goes by itself: one key is always served, by
// the server that has it.
func (b *Backend) shares(lives []*backend.Life, granted []time.Duration, todo []int, errs []error) []*share {
	_, single := b.client.(*redis.Client)
	bySlot := !single || b.crossSlot.Load()
	var list []*share
	open := make(map[int]*share) // by slot; all in 0 if slots do not matter
	for _, i := range todo {
		r, s := renewalOf(lives[i], granted[i]), 0
		if bySlot {
			s = slot(lives[i].Key())
		}
		if errs[i] != nil && redis.HasErrorPrefix(errs[i], "TRYAGAIN") {
			s = -1 - i // no slot
		}
		sh := open[s]
		if sh == nil || len(sh.index) == scriptLeases {
			sh = &share{ttl: backend.MaxTTL}
			if !bySlot {
				sh.index, sh.renewals = make([]int, 0, scriptLeases), make([]*renewal, 0, scriptLeases)
			}
			open[s] = sh
			list = append(list, sh)
		}
		sh.index = append(sh.index, i)
		sh.renewals = append(sh.renewals, r)
		sh.ttl = min(sh.ttl, granted[i])
	}
	return list
}

// command is the share as a command of go-redis.
func (sh *share) command(ctx context.Context, text bool) command {
	n := len(sh.renewals)
	args := append(make([]any, 0, 3+3*n), "evalsha", renewScript.digest, n)
	if text {
		args[0], args[1] = "eval", renewScript.text
	}
	cmd := redis.NewCmd(ctx, appendRenewals(args, sh.renewals)...)
	const firstKey = 3
	cmd.SetFirstKeyPos(firstKey)
	return command{cmd}
}

// A pipeline is shares of one server that are sent together.
type pipeline struct {
	client redis.Cmdable // a cluster's follows slots that move, but cannot wait for replicas
	wait   bool          // for replicas
	shares []*share
	limit  time.Duration // for its answer: on a connection that hangs it fails while there is time for another attempt
}

func (b *Backend) pipelines(ctx context.Context, shares []*share) []*pipeline {
	var list []*pipeline
	open := make(map[*redis.Client]*pipeline) // by server
	for _, sh := range shares {
		var client redis.Cmdable = b.client
		node, err := b.node(ctx, sh.renewals[0].lock.(string))
		if err == nil && b.options.MinReplicas > 0 {
			client = node
		}
		p := open[node]
		if p == nil || len(p.shares) == pipelineScripts {
			p = &pipeline{client: client, wait: b.options.MinReplicas > 0, limit: b.options.Timeout}
			open[node] = p
			list = append(list, p)
		}
		p.shares = append(p.shares, sh)
		p.limit = min(p.limit, max(sh.ttl/2, leastLimit))
	}
	return list
}

// sendPipelines sends a list side by side: a server that hangs holds up its own leases only.
func (b *Backend) sendPipelines(ctx context.Context, list []*pipeline, errs []error) {
	var senders sync.WaitGroup
	for _, p := range list[1:] {
		senders.Go(func() { b.sendPipeline(ctx, p, errs) })
	}
	b.sendPipeline(ctx, list[0], errs)
	senders.Wait()
}

// sendPipeline sends p, within its limit, and enters the error of each lease.
func (b *Backend) sendPipeline(ctx context.Context, p *pipeline, errs []error) {
	end := time.Now().Add(p.limit)
	v, err := b.await(ctx, end, 0, nil, func(ctx context.Context) (any, error) { return b.execPipeline(ctx, p), nil })
	replies, _ := v.([]result)
	for i, sh := range p.shares {
		var v any
		shareErr := err
		if err == nil {
			v, shareErr = replies[i].v, replies[i].err
		}
		if shareErr != nil && isContextError(shareErr) && ctx.Err() == nil {
			shareErr = noAnswer(p.limit, shareErr) // a context's error would be mistaken for the caller's
		}
		if isCrossSlot(shareErr) {
			b.crossSlot.Store(true)
		}
		if v == nil && shareErr != nil {
			for _, lease := range sh.index {
				errs[lease] = unavailable(shareErr)
			}
			continue
		}
		renewAnswers(v, len(sh.index), func(k int, err error) {
			if err == nil {
				err = shareErr // too few replicas have it
			}
			errs[sh.index[k]] = err
		})
	}
}

// execPipeline sends p by digest, and again with the text what a server did not know.
func (b *Backend) execPipeline(ctx context.Context, p *pipeline) []result {
	replies := make([]result, len(p.shares))
	todo := make([]int, len(p.shares))
	for i := range todo {
		todo[i] = i
	}
	for _, text := range []bool{false, true} {
		pipe := p.client.Pipeline()
		cmds := make([]command, len(todo))
		for k, i := range todo {
			cmds[k] = p.shares[i].command(ctx, text)
			_ = pipe.Process(ctx, cmds[k])
		}
		var wait *redis.Cmd
		if p.wait {
			wait = b.queueWait(ctx, pipe)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		var short error
		if wait != nil {
			short = b.shortfall(wait)
		}
		var unknown []int
		for k, i := range todo {
			v, err := cmds[k].Result()
			if isNoScript(err) {
				unknown = append(unknown, i)
			}
			if err == nil {
				replies[i] = result{v, short}
			} else {
				replies[i] = result{nil, err}
			}
		}
		if todo = unknown; len(todo) == 0 {
			break
		}
	}
	return replies
}

func isCrossSlot(err error) bool { return redis.HasErrorPrefix(err, "CROSSSLOT") }
