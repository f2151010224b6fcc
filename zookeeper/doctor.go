package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A reading contains the facts for the rules: the limits that a server has granted, and either the number of keys, for
// rules about the ensemble, or the configuration of another server, for serverRules.
type reading struct {
	limits limits
	keys   int
	conf   string // the server's reply to the command conf
}

const manyKeys = 10_000 // a list of twice as many does not fit into the 1 MB that Java clients read

var (
	rules = []kit.Rule[reading]{
		{Severity: backend.Warning, Code: "long-sessions", Found: func(r reading) string {
			return kit.When(r.limits.shortest > ticksLeast*defaultTick, "the shortest session is %v", r.limits.shortest)
		},
			Why: "a dead holder's key stays taken for at least this long, whatever its TTL",
			Set: "minSessionTimeout, or tickTime, which is half of it by default"},
		{Severity: backend.Warning, Code: "many-keys", Found: func(r reading) string {
			return kit.When(r.keys > manyKeys, "%d keys have a node", r.keys)
		},
			Why: "zkCli.sh cannot list many more (jute.maxbuffer); if the keys are free, nobody removes their containers",
			Set: "znode.container.maxNeverUsedIntervalMs; the defaults of checkIntervalMs and maxPerMinute"},
	}
	serverRules = []kit.Rule[reading]{
		{Severity: backend.Warning, Code: "sessions-differ", Found: func(s reading) string {
			least, ok := durationOf(s.conf, "minSessionTimeout")
			most, ok2 := durationOf(s.conf, "maxSessionTimeout")
			return kit.When(ok && ok2 && (least > s.limits.shortest || most < s.limits.longest),
				"sessions from %v to %v; another server grants %v to %v", least, most, s.limits.shortest, s.limits.longest)
		},
			Why: "a lease that moves to this server is lost, or granted for longer than its holder knows",
			Set: "the same tickTime, minSessionTimeout and maxSessionTimeout on all servers"},
	}
)

// durationOf returns the value of the line name=milliseconds in conf, the reply to the command conf.
func durationOf(conf, name string) (time.Duration, bool) {
	for line := range strings.Lines(conf) {
		var ms int64
		if n, _ := fmt.Sscanf(line, name+"=%d", &ms); n == 1 {
			return time.Duration(ms) * time.Millisecond, true
		}
	}
	return 0, false
}

// Examine implements [backend.Examiner]. It queries each configured server. No rule checks for containers, because New
// rejects servers without them.
func (b *Backend) Examine(ctx context.Context) (all []backend.Finding, err error) {
	r := reading{limits: b.limits}
	err = b.call(ctx, nil, func(ctx context.Context, s *session) error {
		names, err := s.children(ctx, b.root)
		if r.keys = len(names); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		all = append(kit.Apply(rules, "", r), b.examineServers(ctx)...)
		return kit.ContextError(ctx, nil)
	})
	return all, err
}

func (b *Backend) examineServers(ctx context.Context) (all []backend.Finding) {
	lists := make([][]backend.Finding, len(b.servers))
	var wg sync.WaitGroup
	for i, server := range b.servers {
		wg.Go(func() { lists[i] = b.examineServer(ctx, server) })
	}
	wg.Wait()
	return slices.Concat(lists...)
}

func (b *Backend) examineServer(ctx context.Context, server string) (list []backend.Finding) {
	srvr, err := b.describe(ctx, server, "srvr")
	if err != nil {
		return []backend.Finding{kit.Unreachable(server, err)}
	}
	if !strings.HasPrefix(srvr, "Zookeeper version") {
		list = append(list, kit.Unseen(server, "srvr", errNotAllowed))
	}
	conf, err := b.describe(ctx, server, "conf")
	if err == nil && !strings.HasPrefix(conf, "clientPort") {
		err = errNotAllowed
	}
	if err != nil {
		list = append(list, kit.Unseen(server, "conf", err))
	}
	return append(list, kit.Apply(serverRules, server, reading{limits: b.limits, conf: conf})...)
}

var errNotAllowed = errors.New("it is not in 4lw.commands.whitelist")

// describe sends the server a four-letter command, such as srvr for a description of itself. The text is empty if the
// server does not answer the command.
func (b *Backend) describe(ctx context.Context, server, command string) (text string, err error) {
	limit := maxHandshake
	if end, ok := ctx.Deadline(); ok { // a dial knows no context
		limit = min(limit, max(time.Until(end), 1))
	}
	c, err := b.options.Dial("tcp", server, limit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(maxHandshake))
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(c, command); err != nil {
		return "", err
	}
	const most = 64 << 10
	all, err := io.ReadAll(io.LimitReader(c, most))
	if len(all) > 0 {
		err = nil
	}
	return string(all), err
}
