package redlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// birthNew is what an operator, or Bootstrap, writes as the birth record of a node that has forgotten no lease.
const birthNew = "new"

// An acquaintance is what meeting a node has told. The zero acquaintance is of one that has not been met, or that cannot vote.
type acquaintance struct {
	run, id            string // the incarnation of its server, and the name of its data
	record, born, from string // for acquire.lua
	outcast            error  // why it must not vote; nil if it may
	left               time.Duration
}

// acquaint meets a node: it looks whether its server can keep locks, and settles with it from when on it votes. A meeting
// that began after since will do; several that want one share it. It takes several round trips, and mostly a new connection.
func (r *Backend) acquaint(n *node, limit time.Duration, since time.Time) error {
	n.meet <- struct{}{} // bounded by the limit of another meeting
	defer func() { <-n.meet }()
	if found, at := n.acquaintance(); at.After(since) {
		return found.outcast
	}
	begun := time.Now()
	found, err := r.interview(exchange.DeadlineContext{Context: context.Background(), End: begun.Add(limit)}, n)
	if err != nil && exchange.IsContextError(err) {
		err = exchange.NoAnswer(time.Since(begun), err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unmet = err; err != nil {
		return err
	}
	n.found, n.metAt, n.barred = found, begun, begun.Add(found.left)
	return found.outcast
}

// isOutcast reports whether the node was found not long ago to be one that must not vote.
func (n *node) isOutcast(now time.Time) bool {
	const pause = time.Second // it is looked at again
	found, at := n.acquaintance()
	return found.outcast != nil && now.Sub(at) < pause
}

func (r *Backend) interview(ctx context.Context, n *node) (acquaintance, error) {
	pipe := n.client.Pipeline()
	text := pipe.Info(ctx)
	// One pattern for appendonly, appendfsync and no-appendfsync-on-rewrite. It may be forbidden.
	config := pipe.ConfigGet(ctx, "*append*")
	if _, err := pipe.Exec(ctx); text.Val() == "" && err != nil { // a connection that fails leaves commands without errors
		return acquaintance{}, err
	}
	info := endpoint.ParseInfo(text.Val())
	run := info["run_id"]
	if err := unfit(info); err != nil {
		return acquaintance{run: run, outcast: err}, nil
	}
	lock := r.naming.lock("probe:" + newID())
	if err := endpoint.Probe(ctx, n.client, []string{lock, lock}, "", scriptCommands); errors.Is(err, backend.ErrUnsupported) {
		return acquaintance{run: run, outcast: err}, nil
	} else if err != nil {
		return acquaintance{}, err
	}
	durable := "0"
	if endpoint.KeepsWrites(config.Val()) {
		durable = "1"
	}
	args := []any{run, r.options.MaxTTL.Milliseconds(), newID(), durable}
	for _, other := range r.nodes {
		if found, _ := other.acquaintance(); other != n && found.id != "" {
			args = append(args, found.id)
		}
	}
	said := exchange.Send(ctx, n.client, []exchange.Request{{Script: meetScript, Keys: []string{r.naming.birth()}, Args: args}})[0]
	if said.Err != nil {
		return acquaintance{}, said.Err
	}
	list, _ := said.V.([]any)
	if len(list) == 0 {
		return acquaintance{}, errors.New("it was started again just now")
	}
	if len(list) != 6 {
		return acquaintance{}, exchange.ErrReply(said.V)
	}
	texts := make([]string, 5)
	for i := range texts {
		texts[i], _ = list[i].(string)
	}
	if err := r.agreed(texts[2]); err != nil {
		return acquaintance{run: run, outcast: err}, nil
	}
	left, _ := list[5].(int64)
	return acquaintance{
		run: run, record: texts[0], born: texts[1], id: texts[3], from: texts[4], left: time.Duration(left) * time.Millisecond,
	}, nil
}

// agreed is nil if max, in ms, is our longest TTL.
func (r *Backend) agreed(max string) error {
	ms, err := strconv.ParseInt(max, 10, 64)
	if err != nil {
		return exchange.ErrReply(max)
	}
	if theirs := time.Duration(ms) * time.Millisecond; theirs != r.options.MaxTTL {
		return fmt.Errorf("the longest ttl (%s) of this node's fleet is %v, not %v", paramMaxTTL, theirs, r.options.MaxTTL)
	}
	return nil
}

// unfit says why a server must not be a node.
func unfit(info map[string]string) error {
	version, _, _ := strings.Cut(info["redis_version"], ".")
	major, err := strconv.Atoi(version)
	switch policy := info["maxmemory_policy"]; {
	case info["run_id"] == "":
		return errors.New("INFO tells no run_id")
	case err == nil && major < endpoint.OldestMajor:
		return fmt.Errorf("redis %s is older than %d.0", info["redis_version"], endpoint.OldestMajor)
	case info["role"] != "master":
		return errors.New("the server is a replica: nodes must be independent")
	case info["cluster_enabled"] == "1":
		return errors.New("the server belongs to a cluster: nodes must be independent")
	case policy != "" && policy != "noeviction" && info["maxmemory"] != "0":
		return fmt.Errorf("the server evicts keys: set maxmemory-policy noeviction, not %s", policy)
	}
	return nil
}

// idLen is the length of newID's.
const idLen = 16

func newID() string {
	var b [idLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// look meets every node. It fails if a quorum cannot be reached, or if any node that answers cannot be used.
func (r *Backend) look(ctx context.Context) error {
	begun := time.Now()
	t := r.newRollCall()
	r.ask(ctx, t, window{node: openWait, needed: openWait, outage: endpoint.OpenTimeout}, r.apart(func(i int) (verdict, func(), error) {
		err := r.acquaint(r.nodes[i], endpoint.OpenTimeout, begun)
		for isTimeout(err) && !t.isQuorate() && time.Since(begun) < endpoint.OpenTimeout-r.options.Timeout {
			err = r.acquaint(r.nodes[i], endpoint.OpenTimeout-time.Since(begun), begun)
		}
		v := yes
		if err != nil && !exchange.IsReply(err) && !r.nodes[i].isOutcast(begun) {
			v = none
		}
		return v, nil, err
	}))
	if err := backend.ContextError(ctx, errors.Join(t.errs...)); err != nil {
		return err
	}
	for i, err := range t.errs {
		if err != nil && (r.nodes[i].isOutcast(begun) || exchange.IsReply(err)) {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, err)
		}
	}
	if !t.won() {
		return r.noQuorum(t.silent())
	}
	all := make([]int, len(r.nodes))
	for i := range all {
		all[i] = i
	}
	return r.distinct(all)
}

// distinct refuses one server under two addresses.
func (r *Backend) distinct(list []int) error {
	for k, i := range list {
		found, _ := r.nodes[i].acquaintance()
		for _, j := range list[:k] {
			if other, _ := r.nodes[j].acquaintance(); found.run != "" && other.run == found.run {
				return fmt.Errorf("%s and %s are one server", r.nodes[j].name, r.nodes[i].name)
			}
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var net net.Error
	return errors.Is(err, exchange.ErrNoAnswer) || errors.As(err, &net) && net.Timeout()
}

// openWait is how long opening waits for a minority of the nodes.
const openWait = time.Second

// Bootstrap declares that no lease of this fleet is live, and gives every node its vote at once: for a fleet that is used for
// the first time, which would otherwise have to wait for MaxTTL. While leases are live it lets two owners in. It is an
// error if any node cannot be reached; it may then be repeated.
//
// The command SET anylock:redlock:birth new does the same for one node that no client has asked yet.
func (r *Backend) Bootstrap(ctx context.Context) error {
	if !r.usage.Calls.Begin() {
		return backend.ErrClosed
	}
	defer r.usage.Calls.End()
	t := r.newRollCall()
	t.quorum = t.n // all of them must answer
	r.ask(ctx, t, window{outage: endpoint.OpenTimeout}, r.apart(func(i int) (verdict, func(), error) {
		n := r.nodes[i]
		end := time.Now().Add(n.limit)
		_, err := n.lanes.Do(context.Background(), end, exchange.Request{Args: []any{"set", r.naming.birth(), birthNew}})
		if err == nil {
			err = r.acquaint(n, endpoint.OpenTimeout, time.Now())
		}
		return yes, nil, err
	}))
	if err := backend.ContextError(ctx, errors.Join(t.errs...)); err != nil {
		return err
	}
	for i, err := range t.silent() {
		if err != nil {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, err)
		}
	}
	return nil
}
