package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A clusterReading is the input of clusterRules.
type clusterReading struct {
	minTTL      time.Duration
	alarms      []pb.AlarmType
	revision    int64
	uncompacted bool // nothing was ever compacted
}

// uncompactedMost is the number of revisions above which a cluster should have been compacted. Each lock creates two.
const uncompactedMost = 50_000

var clusterRules = []kit.Rule[clusterReading]{
	{Severity: backend.Critical, Code: "no-space", Found: func(c clusterReading) string {
		return kit.When(slices.Contains(c.alarms, pb.AlarmType_NOSPACE), "alarm NOSPACE")
	},
		Why: "the quota is used up: nothing is granted, and leases whose renewal needs a write are lost",
		Set: "compact, defragment, etcdctl alarm disarm; then auto-compaction, or a larger --quota-backend-bytes"},
	{Severity: backend.Critical, Code: "corrupt", Found: func(c clusterReading) string {
		return kit.When(slices.Contains(c.alarms, pb.AlarmType_CORRUPT), "alarm CORRUPT")
	},
		Why: "servers have different data: a key that one has granted, another may grant again",
		Set: "replace the member that differs"},
	{Severity: backend.Warning, Code: "no-compaction", Found: func(c clusterReading) string {
		return kit.When(c.uncompacted && c.revision > uncompactedMost,
			"revision %d, and nothing was ever compacted", c.revision)
	},
		Why: "each lock leaves two revisions behind, until the quota is used up",
		Set: "--auto-compaction-mode periodic --auto-compaction-retention 1h"},
	{Severity: backend.Warning, Code: "long-election-timeout", Found: func(c clusterReading) string {
		return kit.When(c.minTTL > usualMinTTL, "the servers grant at least %v", c.minTTL)
	},
		Why: "shorter TTLs are rounded up; and when the leader fails, nothing is granted for that long",
		Set: "--election-timeout 1000, unless the members are far apart"},
}

var serverRules = []kit.Rule[*clientv3.StatusResponse]{
	{Severity: backend.Warning, Code: "old-version", Found: func(s *clientv3.StatusResponse) string {
		list := flawsOf(s.Version)
		return kit.When(len(list) > 0, "etcd %s: %s", s.Version, strings.Join(list, "; "))
	},
		Why: "a second owner may get the key when a server is paused or the leader changes",
		Set: "3.4.42, 3.5.28, 3.6.9 or newer"},
	{Severity: backend.Warning, Code: "quota-nearly-full", Found: func(s *clientv3.StatusResponse) string {
		quota, whose := s.DbSizeQuota, ""
		if quota == 0 {
			const usual = 2 << 30
			quota, whose = usual, " (the default: this version does not report it)"
		}
		return kit.When(quota > 0 && s.DbSize > quota/10*8,
			"the database has %d bytes, the quota is %d%s", s.DbSize, quota, whose)
	},
		Why: "when the quota is used up, nothing is granted",
		Set: "compact and defragment, or a larger --quota-backend-bytes"},
}

// Examine implements [backend.Examiner]. It requests the status of every endpoint.
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]backend.Finding, error) {
		list, err := b.examineCluster(ctx)
		if err == nil {
			list = append(list, b.examineServers(ctx)...)
			err = kit.ContextError(ctx, nil)
		}
		return list, unavailable(err)
	})
}

func (b *Backend) examineCluster(ctx context.Context) (list []backend.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	c := clusterReading{minTTL: b.guarantees.MinTTL}
	now, err := b.kv.Get(ctx, b.options.prefix("any"), clientv3.WithCountOnly())
	if err != nil {
		return nil, err
	}
	c.revision = now.Header.Revision
	_, err = b.kv.Get(ctx, b.options.prefix("any"), clientv3.WithCountOnly(), clientv3.WithRev(1))
	if c.uncompacted = err == nil; err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return nil, err
	}
	alarms, err := b.client.AlarmList(ctx)
	switch {
	case err == nil:
		for _, a := range alarms.Alarms {
			c.alarms = append(c.alarms, a.Alarm)
		}
	case mayHaveRun(err):
		return nil, err
	default: // the user lacks a permission
		list = append(list, kit.Unseen("", "alarms", err))
	}
	return append(list, kit.Apply(clusterRules, "", c)...), nil
}

func (b *Backend) examineServers(ctx context.Context) (all []backend.Finding) {
	for _, s := range b.statuses(ctx) {
		switch {
		case s.err == nil:
			all = append(all, kit.Apply(serverRules, s.endpoint, s.StatusResponse)...)
		case !mayHaveRun(s.err): // the user lacks a permission
			all = append(all, kit.Unseen(s.endpoint, "its status", s.err))
		default:
			all = append(all, kit.Unreachable(s.endpoint, s.err))
		}
	}
	return all
}
