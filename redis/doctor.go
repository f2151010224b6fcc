package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A masterReading is the state that a master reports, and the requirements of this Backend.
type masterReading struct {
	endpoint.Reading
	replicas  int   // Options.MinReplicas
	forbidden error // why the server refused a message to the inbox; nil if it did not
}

// ignoresMinReplicas reports whether neither min-replicas-to-write nor Options.MinReplicas keeps a master from granting
// keys without its replicas. Versions before 6.2.7 do not apply min-replicas-to-write to scripts.
func (r masterReading) ignoresMinReplicas() bool { return r.replicas == 0 && r.OlderThan(6, 2, 7) }

var rules = []kit.Rule[masterReading]{
	{Severity: backend.Critical, Code: "eviction-policy", Found: func(r masterReading) string {
		policy := endpoint.Evicts(r.Info)
		return kit.When(policy != "", "maxmemory-policy is %s, maxmemory %s", policy, r.Info["maxmemory"])
	},
		Why: "when the server is full, it evicts locks that are held, and a second owner can get in",
		Set: "maxmemory-policy noeviction"},
	{Severity: backend.Critical, Code: "too-few-replicas", Found: func(r masterReading) string {
		return kit.When(len(r.Info) > 0 && r.Number("connected_slaves") < int64(r.replicas),
			"%d replicas are connected, %s is %d", r.Number("connected_slaves"), paramMinReplicas, r.replicas)
	},
		Why: "nothing is granted", Set: "more replicas, or a smaller " + paramMinReplicas},
	{Severity: backend.Warning, Code: "evicted-keys", Found: func(r masterReading) string {
		return kit.When(r.Number("evicted_keys") > 0, "%s keys were evicted since the server started", r.Info["evicted_keys"])
	},
		Why: "locks may have been among them, and may be evicted again",
		Set: "maxmemory-policy noeviction, and more memory"},
	{Severity: backend.Warning, Code: "no-persistence", Found: func(r masterReading) string {
		save, known := r.Config["save"]
		return kit.When(r.Info["aof_enabled"] == "0" && known && save == "", "appendonly is no and save is empty")
	},
		Why: "a restart forgets all locks, so second owners can get in", Set: "appendonly yes"},
	{Severity: backend.Info, Code: "lossy-persistence", Found: func(r masterReading) string {
		fsync := r.Config["appendfsync"]
		return kit.When(len(r.Config) > 0 && !endpoint.KeepsWrites(r.Config) &&
			(r.Info["aof_enabled"] == "1" || r.Config["save"] != ""),
			"appendonly is %s, appendfsync %s, no-appendfsync-on-rewrite %s", r.Config["appendonly"], fsync,
			r.Config["no-appendfsync-on-rewrite"])
	},
		Why: "a crash forgets the latest locks: those of the last second, or since the last snapshot",
		Set: "appendonly yes, appendfsync always, no-appendfsync-on-rewrite no, where that matters"},
	{Severity: backend.Warning, Code: "min-replicas-unset", Found: func(r masterReading) string {
		_, set := r.Info["min_slaves_good_slaves"] // only if min-replicas-to-write is set
		return kit.When(!set && !r.ignoresMinReplicas() && r.Number("connected_slaves") > 0,
			"min-replicas-to-write is not set on a master with %s replicas", r.Info["connected_slaves"])
	},
		Why: "after a failover, a master that is cut off still grants keys that the new master grants to others",
		Set: "min-replicas-to-write 1, min-replicas-max-lag 10"},
	{Severity: backend.Warning, Code: "min-replicas-ignored", Found: func(r masterReading) string {
		return kit.When(r.ignoresMinReplicas() && r.Number("connected_slaves") > 0,
			"redis %s does not apply min-replicas-to-write to scripts on a master with %s replicas",
			r.Info["redis_version"], r.Info["connected_slaves"])
	},
		Why: "versions before 6.2.7 do not apply min-replicas-to-write to scripts: after a failover, a master that is " +
			"cut off still grants keys that the new master grants to others",
		Set: paramMinReplicas + "=1, or a maintained version"},
	{Severity: backend.Warning, Code: "no-channels",
		Found: func(r masterReading) string { return kit.When(r.forbidden != nil, "%v", r.forbidden) },
		Why:   "this user can acquire locks, but an Acquire that has to wait is refused",
		Set:   "the rights in docs/stores/redis.md, including the channels"},
}

// Examine implements [backend.Examiner]. It inspects every master.
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	return inspectServers(ctx, b, b.examine)
}

func (b *Backend) examine(ctx context.Context) ([]backend.Finding, error) {
	forbidden := b.client.Publish(ctx, b.inbox.channel, "probe").Err()
	if forbidden != nil && !exchange.IsReply(forbidden) {
		return nil, forbidden
	}
	return onMasters(ctx, b, func(ctx context.Context, where string, c redis.Cmdable) ([]backend.Finding, error) {
		r, list, err := endpoint.Read(ctx, where, c)
		master := masterReading{r, b.options.MinReplicas, forbidden}
		return append(list, kit.Apply(rules, where, master)...), err
	})
}
