package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A reading is what is known of the ensemble, a serverReading what one server says to the commands of four letters.
type (
	reading struct {
		limits limits
		keys   int
	}
	serverReading struct {
		srvr, conf string // empty where they are not permitted
		limits     limits
	}
)

const (
	usualLeast = ticksLeast * defaultTick // of sessions, as servers come
	manyKeys   = 10_000                   // a list of twice as many does not fit into the 1 MB that clients read
)

var (
	rules = []kit.Rule[reading]{
		{Severity: backend.Warning, Code: "long-sessions", Found: func(r reading) string {
			return kit.When(r.limits.shortest > usualLeast, "the shortest session is %v", r.limits.shortest)
		},
			Why: "a dead holder's key stays taken for at least this long, whatever its TTL",
			Set: "minSessionTimeout, or tickTime, which is half of it by default"},
		{Severity: backend.Warning, Code: "many-keys", Found: func(r reading) string {
			return kit.When(r.keys > manyKeys, "%d keys have a node", r.keys)
		},
			Why: "listing all keys will soon be refused (jute.maxbuffer); if the keys are free, nobody removes their containers",
			Set: "the defaults of znode.container.checkIntervalMs and maxPerMinute on the servers"},
	}
	serverRules = []kit.Rule[serverReading]{
		{Severity: backend.Info, Code: "commands-forbidden", Found: func(s serverReading) string {
			var list []string
			if s.srvr == "" {
				list = append(list, "srvr")
			}
			if s.conf == "" {
				list = append(list, "conf")
			}
			return kit.When(len(list) > 0, "no answer to %s", strings.Join(list, ", "))
		},
			Why: "the version, mode and session limits of this server are hidden; without srvr, each look at a queue of a standalone server costs a write",
			Set: "4lw.commands.whitelist=srvr,conf"},
		{Severity: backend.Warning, Code: "sessions-differ", Found: func(s serverReading) string {
			least, ok := durationOf(s.conf, "minSessionTimeout")
			most, ok2 := durationOf(s.conf, "maxSessionTimeout")
			return kit.When(ok && ok2 && (least > s.limits.shortest || most < s.limits.longest), "sessions from %v to %v; another server grants %v to %v",
				least, most, s.limits.shortest, s.limits.longest)
		},
			Why: "a lease that moves to this server is lost, or granted for longer than its holder knows",
			Set: "the same tickTime, minSessionTimeout and maxSessionTimeout on all servers"},
	}
)

// durationOf finds name=milliseconds in the answer to conf.
func durationOf(conf, name string) (time.Duration, bool) {
	for line := range strings.Lines(conf) {
		var ms int64
		if n, _ := fmt.Sscanf(line, name+"=%d", &ms); n == 1 {
			return time.Duration(ms) * time.Millisecond, true
		}
	}
	return 0, false
}

// Examine implements [backend.Examiner]. It asks each server of the URL. Opening refuses servers without containers.
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	r := reading{limits: b.limits}
	var all []backend.Finding
	err := b.onAny(ctx, nil, func(ctx context.Context, s *session) error {
		names, err := s.children(ctx, b.root)
		if r.keys = len(names); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		all = append(kit.Apply(rules, "", r), b.examineServers(ctx)...)
		return kit.ContextError(ctx, nil)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (b *Backend) examineServers(ctx context.Context) (all []backend.Finding) {
	lists := make([][]backend.Finding, len(b.servers))
	var asked sync.WaitGroup
	for i, server := range b.servers {
		asked.Go(func() {
			srvr, err := b.describe(ctx, server, "srvr")
			if err != nil {
				lists[i] = []backend.Finding{kit.Unreachable(server, err)}
				return
			}
			conf, _ := b.describe(ctx, server, "conf")
			lists[i] = kit.Apply(serverRules, server, serverReading{known(srvr, "Zookeeper version"), known(conf, "clientPort"), b.limits})
		})
	}
	asked.Wait()
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// known is an answer that begins as it should, and not with a refusal.
func known(answer, begin string) string {
	if !strings.HasPrefix(answer, begin) {
		return ""
	}
	return answer
}
