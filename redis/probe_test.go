package redis

import (
	"context"
	"testing"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/redistest"
)

// If a server lacks or forbids commands, opening fails with an error that names them. The probe leaves no key behind.
func TestOpenProbesCommands(t *testing.T) {
	t.Parallel()
	lacking := servers.Redis(t, "--rename-command", "ZPOPMIN", "", "--rename-command", "PTTL", "")
	forbidding := servers.Redis(t)
	c := redistest.Raw(t, forbidding.Addr)
	ctx := context.Background()
	if err := c.Do(ctx, "ACL", "SETUSER", "app", "on", ">hunter2", "~anylock:*", "&anylock:*", "+@all", "-pexpire",
		"-zcard").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.RefusedFor(t, "redis://"+lacking.Addr, "ZPOPMIN", "PTTL")
	redistest.RefusedFor(t, "redis://app:hunter2@"+forbidding.Addr, "PEXPIRE", "ZCARD")
	for _, s := range []*servers.Server{lacking, forbidding} {
		if keys := redistest.Raw(t, s.Addr).Keys(ctx, "*probe*").Val(); len(keys) > 0 {
			t.Errorf("the probe left %q", keys)
		}
	}
}

// The probe ignores errors of a server that is full, read-only or short of replicas. It leaves no key behind.
func TestOpenProbesNothingMomentary(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := redistest.Raw(t, s.Addr)
	ctx := context.Background()
	_ = opened(t, "redis://"+s.Addr)
	if keys := c.Keys(ctx, "*").Val(); len(keys) > 0 {
		t.Errorf("opening left %q", keys)
	}
	undo := redistest.Fill(t, s.Addr)
	_ = opened(t, "redis://"+s.Addr)
	undo()
	// Without INFO, opening cannot detect that the server is a replica.
	replica := servers.Redis(t, "--replicaof", "127.0.0.1", port(s.Addr))
	r := redistest.Raw(t, replica.Addr)
	if err := r.Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	_ = opened(t, "redis://app:secret@"+replica.Addr)
	if err := c.ConfigSet(ctx, "min-replicas-to-write", "5").Err(); err != nil {
		t.Fatal(err)
	}
	_ = opened(t, "redis://"+s.Addr)
}

func TestProbeIsComplete(t *testing.T) {
	t.Parallel()
	redistest.ProbeIsComplete(t, scriptCommands, allScripts)
}
