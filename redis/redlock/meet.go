package redlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// birthNew is what an operator, or Bootstrap, writes as the birth record of a node that has forgotten no lease.
const birthNew = "new"

// errCopied is that of a node which has to be met again, to learn from us that its record is another's.
var errCopied = errors.New("its data was copied from another node")

// An acquaintance is what meeting a node has shown. The zero acquaintance is of one that has not been met, or that
// cannot vote.
type acquaintance struct {
	run, id            string // the incarnation of its server, and the name of its data
	record, born, from string // for acquire.lua
	outcast            error  // why it must not vote; nil if it may
	left               time.Duration
	at                 time.Time // when the meeting began
}

// acquaint meets a node: it looks whether its server can keep locks, and agrees with it from when on it votes. A
// meeting that began after since will do; several that want one share it. It takes several round trips, and mostly a
// new connection.
func (r *Backend) acquaint(n *node, limit time.Duration, since time.Time) error {
	n.meet.Lock() // bounded by the limit of another meeting
	defer n.meet.Unlock()
	if found := n.acquaintance(); found.at.After(since) {
		return found.outcast
	}
	begun := time.Now()
	found, err := r.interview(exchange.DeadlineContext{Context: context.Background(), End: begun.Add(limit)}, n)
	if err != nil && kit.IsContextError(err) {
		err = exchange.NoAnswer(time.Since(begun), err)
	}
	r.meeting.Lock() // of two that are met at once one is the second
	defer r.meeting.Unlock()
	for _, o := range r.nodes {
		switch met := o.acquaintance(); {
		case o == n || met.id == "":
		case met.run == found.run:
			found = acquaintance{run: found.run, outcast: fmt.Errorf("%s and %s are one server", o.name, n.name)}
		case met.id == found.id:
			err = errCopied
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unmet = err; err != nil {
		return err
	}
	found.at = begun
	n.found, n.barred = found, begun.Add(found.left)
	return found.outcast
}

// isOutcast reports whether the node was found not long ago to be one that must not vote.
func (n *node) isOutcast(now time.Time) bool {
	const pause = time.Second // it is looked at again
	found := n.acquaintance()
	return found.outcast != nil && now.Sub(found.at) < pause
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
	if err := endpoint.Probe(ctx, n.client, []string{lock, lock}, "", scriptCommands); errors.Is(err,
		backend.ErrUnsupported) {
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
		if found := other.acquaintance(); other != n && found.id != "" {
			args = append(args, found.id)
		}
	}
	said := exchange.Send(ctx, n.client,
		[]exchange.Request{meetScript.Request([]string{r.naming.birth()}, args...)})[0]
	if said.Err != nil {
		return acquaintance{}, said.Err
	}
	if list, ok := said.V.([]any); ok && len(list) == 0 {
		return acquaintance{}, errors.New("it was started again just now")
	}
	f := exchange.ReadFields(said.V)
	found := acquaintance{run: run, record: f.Text(), born: f.Text()}
	longest, err := time.ParseDuration(f.Text() + "ms")
	found.id, found.from, found.left = f.Text(), f.Text(), f.Millis()
	switch {
	case f.Err() != nil:
		return acquaintance{}, f.Err()
	case err != nil:
		return acquaintance{}, exchange.ErrReply(said.V)
	case longest != r.options.MaxTTL:
		err = fmt.Errorf("the longest ttl (%s) of this node's fleet is %v, not %v", paramMaxTTL, longest, r.options.MaxTTL)
		return acquaintance{run: run, outcast: err}, nil
	}
	return found, nil
}

// unfit says why a server must not be a node.
func unfit(info map[string]string) error {
	switch policy := endpoint.Evicts(info); {
	case info["run_id"] == "":
		return errors.New("INFO has no run_id")
	case info["role"] != "master":
		return errors.New("the server is a replica: nodes must be independent")
	case info["cluster_enabled"] == "1":
		return errors.New("the server belongs to a cluster: nodes must be independent")
	case policy != "":
		return fmt.Errorf("the server evicts keys: set maxmemory-policy noeviction, not %q", policy)
	}
	return endpoint.TooOld(info)
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
	r.ask(ctx, t, window{node: openWait, needed: openWait, outage: endpoint.OpenTimeout},
		r.apart(func(i int) (verdict, func(), error) {
			n := r.nodes[i]
			err := r.acquaint(n, endpoint.OpenTimeout, begun)
			for (isTimeout(err) || errors.Is(err, errCopied)) && time.Since(begun) < endpoint.OpenTimeout-r.options.Timeout {
				err = r.acquaint(n, endpoint.OpenTimeout-time.Since(begun), begun)
			}
			if exchange.IsReply(err) || n.isOutcast(begun) {
				return no, nil, err
			}
			return verdictOf(err), nil, err
		}))
	if err := kit.ContextError(ctx, errors.Join(t.errs...)); err != nil {
		return err
	}
	for i, said := range t.said {
		if said == no {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, t.errs[i])
		}
	}
	if !t.won() {
		return r.noQuorum(t.misses())
	}
	return nil
}

func isTimeout(err error) bool {
	var net net.Error
	return errors.Is(err, exchange.ErrNoAnswer) || errors.As(err, &net) && net.Timeout()
}

// openWait is how long opening waits for a minority of the nodes.
const openWait = time.Second

// Bootstrap declares that no lease of this fleet is live, and gives every node its vote at once: for a fleet that is
// used for the first time, which would otherwise have to wait for MaxTTL. While leases are live it lets two owners in.
// It is an error if any node cannot be reached; it may then be repeated.
//
// The command SET anylock:redlock:birth new does the same for one node that no client has asked yet.
func (r *Backend) Bootstrap(ctx context.Context) error {
	return r.leases.Call(ctx, nil, r.bootstrap)
}

func (r *Backend) bootstrap(ctx context.Context) error {
	t := r.newRollCall()
	t.quorum = len(r.nodes) // all of them must answer
	r.ask(ctx, t, window{outage: endpoint.OpenTimeout}, r.apart(func(i int) (verdict, func(), error) {
		n := r.nodes[i]
		end := time.Now().Add(n.limit)
		_, err := n.batcher.Do(context.Background(), end, exchange.Request{Args: []any{"set", r.naming.birth(), birthNew}})
		if err == nil {
			err = r.acquaint(n, endpoint.OpenTimeout, time.Now())
		}
		return verdictOf(err), nil, err
	}))
	if err := kit.ContextError(ctx, errors.Join(t.errs...)); err != nil {
		return err
	}
	for i, err := range t.misses() {
		if err != nil {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, err)
		}
	}
	return nil
}
