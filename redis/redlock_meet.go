package redis

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
)

// birthNew is what an operator, or Bootstrap, writes as the birth record of a node that has forgotten no lease.
const birthNew = "new"

// acquaint meets a node: it looks whether its server can keep locks, and settles with it from when on it votes. A meeting
// that began after since will do; several that want one share it.
func (r *Redlock) acquaint(n *node, since time.Time) error {
	return r.acquaintWithin(n.limit, n, since)
}

// acquaintWithin is acquaint with a limit of its own for a meeting, which takes several round trips and mostly a new connection.
func (r *Redlock) acquaintWithin(limit time.Duration, n *node, since time.Time) error {
	n.meet <- struct{}{} // bounded by the limit of another meeting
	defer func() { <-n.meet }()
	n.mu.Lock()
	met, err := n.metAt.After(since), n.outcast
	n.mu.Unlock()
	if met {
		return err
	}
	begun := time.Now()
	v, err := n.within(limit, func(ctx context.Context) (any, error) { return r.interview(ctx, n) })
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unmet = err; err != nil {
		return err
	}
	found := v.(acquaintance)
	n.run, n.id, n.outcast, n.metAt = found.run, found.id, found.outcast, begun
	n.barred = begun.Add(found.left)
	return n.outcast
}

// An acquaintance is what meeting a node has told.
type acquaintance struct {
	run, id string
	outcast error
	left    time.Duration // until the node has a vote
}

func (r *Redlock) interview(ctx context.Context, n *node) (acquaintance, error) {
	pipe := n.client.Pipeline()
	text := pipe.Info(ctx)
	// One pattern for appendonly, appendfsync and no-appendfsync-on-rewrite. It may be forbidden.
	config := pipe.ConfigGet(ctx, "*append*")
	if _, err := pipe.Exec(ctx); text.Val() == "" && err != nil { // a connection that fails leaves commands without errors
		return acquaintance{}, err
	}
	info := parseInfo(text.Val())
	met := acquaintance{run: info["run_id"], outcast: unfit(info)}
	if met.outcast != nil {
		return met, nil
	}
	lock := r.naming.lock("probe:" + newID())
	if err := probe(ctx, n.client, names{lock: lock, queue: lock}, "", redlockCommands); errors.Is(err, backend.ErrUnsupported) {
		met.outcast = err
		return met, nil
	} else if err != nil {
		return acquaintance{}, err
	}
	durable := "0"
	if keepsWrites(config.Val()) {
		durable = "1"
	}
	args := []any{met.run, r.options.MaxTTL.Milliseconds(), newID(), durable}
	for _, other := range r.nodes {
		if other == n {
			continue
		}
		other.mu.Lock()
		if other.id != "" {
			args = append(args, other.id)
		}
		other.mu.Unlock()
	}
	said := exchange(ctx, n.client, []request{{script: redlockMeet, keys: []string{r.naming.birth()}, args: args}})[0]
	if said.err != nil {
		return acquaintance{}, said.err
	}
	list, _ := said.v.([]any)
	if len(list) == 1 && list[0] == int64(0) {
		return acquaintance{}, errors.New("it was started again just now")
	}
	if len(list) != 4 {
		return acquaintance{}, errReply(said.v)
	}
	met.id, _ = list[2].(string)
	met.outcast = r.agreed(list[1])
	left, _ := list[3].(int64)
	met.left = time.Duration(left) * time.Millisecond
	return met, nil
}

// agreed is nil if max, in ms, is our longest TTL.
func (r *Redlock) agreed(max any) error {
	text, _ := max.(string)
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errReply(max)
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
	case err == nil && major < oldestMajor:
		return fmt.Errorf("redis %s is older than %d.0", info["redis_version"], oldestMajor)
	case info["role"] != "master":
		return errors.New("the server is a replica: nodes must be independent")
	case info["cluster_enabled"] == "1":
		return errors.New("the server belongs to a cluster: nodes must be independent")
	case policy != "" && policy != "noeviction" && info["maxmemory"] != "0":
		return fmt.Errorf("the server evicts keys: set maxmemory-policy noeviction, not %s", policy)
	}
	return nil
}

// keepsWrites reports whether a server with this configuration still has, when it starts again, every write that it has
// answered.
func keepsWrites(config map[string]string) bool {
	return config["appendonly"] == "yes" && config["appendfsync"] == "always" && config["no-appendfsync-on-rewrite"] == "no"
}

// idLen is the length of newID's.
const idLen = 16

func newID() string {
	var b [idLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// look meets every node. It fails if a quorum cannot be reached, or if any node that answers cannot be used.
func (r *Redlock) look(ctx context.Context) error {
	begun := time.Now()
	t := r.newTally()
	t.certain = func() bool { return false } // all, if they answer
	r.ask(ctx, t, window{node: openWait, outage: openTimeout}, func(i int) (verdict, func(), error) {
		err := r.acquaintWithin(openTimeout, r.nodes[i], begun)
		for isTimeout(err) && !t.isQuorate() && time.Since(begun) < openTimeout-r.options.Timeout {
			err = r.acquaintWithin(openTimeout-time.Since(begun), r.nodes[i], begun)
		}
		v := yes
		if err != nil && !isReply(err) && !isOutcast(r.nodes[i]) {
			v = none
		}
		return v, nil, err
	})
	if err := backend.ContextError(ctx, errors.Join(t.errs...)); err != nil {
		return err
	}
	for i, err := range t.errs {
		if err != nil && (isOutcast(r.nodes[i]) || isReply(err)) {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, err)
		}
	}
	if !t.won() {
		return r.noQuorum(t.silent())
	}
	return r.distinct()
}

// distinct refuses one server under two addresses.
func (r *Redlock) distinct() error {
	seen := make(map[string]string)
	for _, n := range r.nodes {
		run, _ := n.standing()
		if other, twice := seen[run]; twice && run != "" {
			return fmt.Errorf("%s and %s are one server", other, n.name)
		}
		seen[run] = n.name
	}
	return nil
}

func isTimeout(err error) bool {
	var net net.Error
	return errors.Is(err, errNoAnswer) || errors.As(err, &net) && net.Timeout()
}

func isOutcast(n *node) bool {
	_, err := n.standing()
	return err != nil
}

// openWait is how long opening waits for a minority of the nodes.
const openWait = time.Second

// Bootstrap declares that no lease of this fleet is live, and gives every node its vote at once: for a fleet that is used for
// the first time, which would otherwise have to wait for MaxTTL. While leases are live it lets two owners in. It is an
// error if any node cannot be reached; it may then be repeated.
//
// The command SET anylock:redlock:birth new does the same for one node that no client has asked yet.
func (r *Redlock) Bootstrap(ctx context.Context) error {
	if !r.calls.Begin() {
		return backend.ErrClosed
	}
	defer r.calls.End()
	t := r.newTally()
	t.certain = func() bool { return false }
	r.ask(ctx, t, window{node: openTimeout, outage: openTimeout}, func(i int) (verdict, func(), error) { // all of them must answer
		n := r.nodes[i]
		_, err := n.do(func(ctx context.Context) (any, error) {
			return n.client.Set(ctx, r.naming.birth(), birthNew, 0).Result()
		})
		if err == nil {
			err = r.acquaintWithin(openTimeout, n, time.Now())
		}
		return yes, nil, err
	})
	if err := backend.ContextError(ctx, errors.Join(t.errs...)); err != nil {
		return err
	}
	for i, err := range t.errs {
		if err != nil {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, err)
		}
	}
	if t.answered() < t.n {
		return errNoAnswer
	}
	return nil
}
