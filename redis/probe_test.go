package redis

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// A server that lacks a command, or forbids it, is refused at opening by the command's name.
func TestOpenProbesCommands(t *testing.T) {
	t.Parallel()
	lacking := servers.Redis(t, "--rename-command", "ZPOPMIN", "", "--rename-command", "PTTL", "")
	forbidding := servers.Redis(t)
	c := raw(t, forbidding.Addr)
	ctx := context.Background()
	if err := c.Do(ctx, "ACL", "SETUSER", "app", "on", ">hunter2", "~anylock:*", "&anylock:*", "+@all", "-pexpire", "-zrange").Err(); err != nil {
		t.Fatal(err)
	}
	for url, names := range map[string][]string{
		"redis://" + lacking.Addr:                {"ZPOPMIN", "PTTL"},
		"redis://app:hunter2@" + forbidding.Addr: {"PEXPIRE", "ZRANGE"},
		"redis+redlock://" + lacking.Addr + "," + forbidding.Addr + "," + servers.Redis(t).Addr: {"PTTL"},
	} {
		b, _, err := backend.DefaultMux.Open(ctx, url)
		if err == nil {
			_ = b.Close()
			t.Errorf("%s: opened, want it refused for %s", backend.Redact(url), names)
			continue
		}
		t.Log(err)
		if !errors.Is(err, backend.ErrUnsupported) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want ErrUnsupported without the password", err)
		}
		got := regexp.MustCompile(`[A-Z]+ \(`).FindAllString(err.Error(), -1)
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], " (")
		}
		slices.Sort(got)
		slices.Sort(names)
		if !slices.Equal(got, names) {
			t.Errorf("%v names %s, want %s", err, got, names)
		}
	}
	for _, s := range []*servers.Server{lacking, forbidding} {
		if keys := raw(t, s.Addr).Keys(ctx, "*probe*").Val(); len(keys) > 0 {
			t.Errorf("the probe left %q", keys)
		}
	}
}

// A server that is full, or was made read-only, lacks nothing; and what was probed is gone.
func TestOpenProbesNothingMomentary(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := raw(t, s.Addr)
	ctx := context.Background()
	_ = opened(t, "redis://"+s.Addr)
	if keys := c.Keys(ctx, "*").Val(); len(keys) > 0 {
		t.Errorf("opening left %q", keys)
	}
	undo := fill(t, s.Addr)
	_ = opened(t, "redis://"+s.Addr)
	undo()
	// A user who cannot see that this is a replica.
	replica := servers.Redis(t, "--replicaof", "127.0.0.1", port(s.Addr))
	r := raw(t, replica.Addr)
	if err := r.Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	_ = opened(t, "redis://app:secret@"+replica.Addr)
	if err := c.ConfigSet(ctx, "min-replicas-to-write", "5").Err(); err != nil {
		t.Fatal(err)
	}
	_ = opened(t, "redis://"+s.Addr)
}

// The probe tries what the scripts run, no more and no less.
func TestProbeIsComplete(t *testing.T) {
	t.Parallel()
	called := regexp.MustCompile(`\b(?:call|pcall|write)\('([A-Z]+)'`)
	for name, it := range map[string]struct {
		probed  []string
		scripts []script
	}{
		"redis":   {scriptCommands, []script{acquireScript, renewScript, releaseScript, inspectScript}},
		"redlock": {redlockCommands, []script{redlockMeet, redlockAcquire, redlockConfirm, redlockRenew, redlockRepair, redlockRelease, redlockInspect}},
	} {
		var want, got []string
		for _, s := range it.scripts {
			for _, m := range called.FindAllStringSubmatch(s.text, -1) {
				want = append(want, m[1])
			}
		}
		for _, p := range it.probed {
			command, _, _ := strings.Cut(p, " ")
			got = append(got, command)
		}
		slices.Sort(want)
		slices.Sort(got)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%s: probes %s, scripts run %s", name, got, want)
		}
	}
}
