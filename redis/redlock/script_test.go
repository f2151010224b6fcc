package redlock

import (
	"testing"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

var allScripts = map[string]exchange.Script{
	"handshake": handshakeScript,
	"acquire":   acquireScript, "renew": renewScript, "repair": repairScript,
	"release": releaseScript, "inspect": inspectScript,
}

func TestDigests(t *testing.T) {
	t.Parallel()
	redistest.Digests(t, allScripts)
}

func TestProbeIsComplete(t *testing.T) {
	t.Parallel()
	redistest.ProbeIsComplete(t, scriptCommands, allScripts)
}

// If a node lacks a command that the scripts need, opening fails and names the command. The probe leaves no key behind.
func TestOpenProbesCommands(t *testing.T) {
	t.Parallel()
	lacking := servers.Redis(t, "--rename-command", "ZPOPMIN", "", "--rename-command", "PTTL", "")
	redistest.RefusedFor(t, "redis+redlock://"+lacking.Addr+","+servers.Redis(t).Addr+","+servers.Redis(t).Addr, "PTTL")
	if keys := redistest.Raw(t, lacking.Addr).Keys(t.Context(), "*probe*").Val(); len(keys) > 0 {
		t.Errorf("the probe left %q", keys)
	}
}
