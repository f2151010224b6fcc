package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// birthNew is the birth record that an operator, or Bootstrap, writes to a node that has forgotten no lease.
const birthNew = "new"

// errCopied means that the node has the record of another node. Another handshake is needed, in which the node gets its
// own record.
var errCopied = errors.New("its data was copied from another node")

// A handshake is the state of a node that the client learns before the node may vote. The zero handshake means that
// there was none.
type handshake struct {
	run, id            string        // the run_id of the node's server, and the random name of its data
	record, born, from string        // arguments of acquire.lua
	unfit              error         // why the node must not vote; nil if it may
	untilVote          time.Duration // until the node has its vote
	at                 time.Time     // when the handshake began
}

// handshake checks whether a node's server can keep locks, and agrees with the node from when on it votes. A handshake
// that began after since is reused. It takes several round trips, and usually a new connection.
func (r *Backend) handshake(n *node, limit time.Duration, since time.Time) error {
	n.handshaking.Lock() // waits at most for the limit of another handshake
	defer n.handshaking.Unlock()
	if found := n.lastHandshake(); found.at.After(since) {
		return found.unfit
	}
	begun := time.Now()
	found, err := r.requestHandshake(exchange.DeadlineContext{Context: context.Background(), End: begun.Add(limit)}, n)
	if err != nil && kit.IsContextError(err) {
		err = exchange.NoAnswer(time.Since(begun), err)
	}
	r.comparing.Lock() // of two concurrent handshakes, the second is compared with the first
	defer r.comparing.Unlock()
	for _, o := range r.nodes {
		switch other := o.lastHandshake(); {
		case o == n || other.id == "":
		case other.run == found.run:
			found = handshake{run: found.run, unfit: fmt.Errorf("%s and %s are one server", o.name, n.name)}
		case other.id == found.id:
			err = errCopied
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.handshakeErr = err; err != nil {
		return err
	}
	found.at = begun
	n.found, n.noVoteUntil = found, begun.Add(found.untilVote)
	return found.unfit
}

func (r *Backend) requestHandshake(ctx context.Context, n *node) (handshake, error) {
	pipe := n.client.Pipeline()
	text := pipe.Info(ctx)
	// One pattern for appendonly, appendfsync and no-appendfsync-on-rewrite. CONFIG may be forbidden.
	config := pipe.ConfigGet(ctx, "*append*")
	if _, err := pipe.Exec(ctx); text.Val() == "" && err != nil { // a connection that fails leaves commands without errors
		return handshake{}, err
	}
	info := endpoint.ParseInfo(text.Val())
	run := info["run_id"]
	if err := unusable(info); err != nil {
		return handshake{run: run, unfit: err}, nil
	}
	lock := r.naming.lock("probe:" + newID())
	if err := endpoint.Probe(ctx, n.client, []string{lock, lock}, "", scriptCommands); errors.Is(err,
		backend.ErrUnsupported) {
		return handshake{run: run, unfit: err}, nil
	} else if err != nil {
		return handshake{}, err
	}
	args := []any{run, r.options.MaxTTL.Milliseconds(), newID(), endpoint.KeepsWrites(config.Val())}
	for _, other := range r.nodes {
		if found := other.lastHandshake(); other != n && found.id != "" {
			args = append(args, found.id)
		}
	}
	reply := exchange.Send(ctx, n.client,
		[]exchange.Request{handshakeScript.Request([]string{r.naming.birth()}, args...)})[0]
	if reply.Err != nil {
		return handshake{}, reply.Err
	}
	f := exchange.ReadFields(reply.V) // empty if the server has just been started again
	found := handshake{run: run, record: f.Text(), born: f.Text()}
	longest := f.Millis()
	found.id, found.from, found.untilVote = f.Text(), f.Text(), f.Millis()
	switch {
	case f.Err() != nil:
		return handshake{}, f.Err()
	case longest != r.options.MaxTTL:
		err := fmt.Errorf("the longest ttl (%s) of this node's fleet is %v, not %v", paramMaxTTL, longest, r.options.MaxTTL)
		return handshake{run: run, unfit: err}, nil
	}
	return found, nil
}

// unusable returns why a server must not be a node.
func unusable(info map[string]string) error {
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
	return nil
}

// idLen is the length of an id that newID returns.
const idLen = 16

func newID() string { return rand.Text()[:idLen] }

// handshakeAll makes a handshake with every node. It fails if a quorum cannot be reached, or if any node that replies
// cannot be used. A node that is temporarily unable to serve counts as one that cannot be reached.
func (r *Backend) handshakeAll(ctx context.Context) error {
	begun := time.Now()
	t := r.newTally()
	r.runRound(ctx, t, window{node: openWait, needed: openWait, outage: endpoint.OpenTimeout},
		r.onGoroutines(func(i int) (func(), error) {
			n := r.nodes[i]
			err := r.handshake(n, endpoint.OpenTimeout, begun)
			for (isTimeout(err) || errors.Is(err, errCopied)) && time.Since(begun) < endpoint.OpenTimeout-r.options.Timeout {
				err = r.handshake(n, endpoint.OpenTimeout-time.Since(begun), begun)
			}
			return nil, err
		}))
	if err := kit.ContextError(ctx, errors.Join(t.errs...)); err != nil {
		return err
	}
	for i, err := range t.errs {
		n := r.nodes[i]
		if err != nil && (exchange.IsReply(err) && !exchange.Passing(err) || n.lastHandshake().unfit != nil) {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
	}
	return r.quorumError(t)
}

func isTimeout(err error) bool {
	var net net.Error
	return errors.Is(err, exchange.ErrNoAnswer) || errors.As(err, &net) && net.Timeout()
}

// openWait is how long opening waits for the other nodes once a quorum has replied.
const openWait = time.Second

// Bootstrap declares that no lease of this fleet is live, and gives every node its vote at once. It is for a fleet that
// is used for the first time, which would otherwise have to wait for MaxTTL. If leases are live, Bootstrap can give two
// owners the key. It fails if any node cannot be reached; it may then be repeated.
//
// The command SET anylock:redlock:birth new does the same for one node that no client has contacted yet.
func (r *Backend) Bootstrap(ctx context.Context) error {
	return r.leases.Call(ctx, nil, r.bootstrap)
}

func (r *Backend) bootstrap(ctx context.Context) error {
	t := r.newTally()
	t.quorum = len(r.nodes) // all nodes must reply
	r.runRound(ctx, t, window{outage: endpoint.OpenTimeout}, r.onGoroutines(func(i int) (func(), error) {
		n := r.nodes[i]
		end := time.Now().Add(n.limit)
		_, err := n.batcher.Do(context.Background(), end, exchange.Request{Args: []any{"set", r.naming.birth(), birthNew}})
		if err == nil {
			err = r.handshake(n, endpoint.OpenTimeout, time.Now())
		}
		return nil, err
	}))
	for i, err := range t.nodeErrors() {
		if err != nil {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, err)
		}
	}
	return nil
}
