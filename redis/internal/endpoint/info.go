package endpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A Reading is the state that a server reports: INFO, and CONFIG if permitted.
type Reading struct {
	Info, Config map[string]string // Config is empty if CONFIG is not permitted

	Clock          time.Time // the server's time; zero if TIME is not permitted
	Sent, Received time.Time // before the request for Clock and after the reply
}

// Number returns a number in INFO, or 0 if there is none.
func (r Reading) Number(name string) int64 {
	n, _ := strconv.ParseInt(r.Info[name], 10, 64)
	return n
}

// OlderThan reports whether the server's version is before this one. It is false for a version that cannot be parsed.
func (r Reading) OlderThan(major, minor, patch int) bool {
	v := make([]int, 3)
	n, _ := fmt.Sscanf(r.Info["redis_version"], "%d.%d.%d", &v[0], &v[1], &v[2])
	return n >= 2 && slices.Compare(v, []int{major, minor, patch}) < 0
}

// ServerRules are the rules for any server.
var ServerRules = []kit.Rule[Reading]{
	{Severity: backend.Warning, Code: "old-version", Found: func(r Reading) string {
		return kit.When(r.OlderThan(6, 2, 0), "redis %s", r.Info["redis_version"])
	},
		Why: "versions before 6.2 no longer get fixes", Set: "a maintained version"},
	{Severity: backend.Warning, Code: "memory-nearly-full", Found: func(r Reading) string {
		used, most := r.Number("used_memory"), r.Number("maxmemory")
		return kit.When(most > 0 && used > most/10*9, "%d of maxmemory %d bytes are used", used, most)
	},
		Why: "a full server refuses writes, or evicts keys", Set: "a larger maxmemory, or a server only for locks"},
}

// Read inspects a server. Its findings are the commands that the server refused, a wrong clock, and those of
// ServerRules.
func Read(ctx context.Context, where string, c redis.Cmdable) (r Reading, list []backend.Finding, err error) {
	r = Reading{Info: make(map[string]string), Config: make(map[string]string)}
	refused := func(what string, err error) error {
		if exchange.IsReply(err) {
			list, err = append(list, kit.Unseen(where, what, err)), nil
		}
		return err
	}
	text, err := c.Info(ctx).Result()
	if err = refused("INFO", err); err != nil {
		return r, nil, err
	}
	r.Info = ParseInfo(text)
	for _, pattern := range []string{"save", "*append*"} {
		some, err := c.ConfigGet(ctx, pattern).Result()
		if err = refused("CONFIG GET "+pattern, err); err != nil {
			return r, nil, err
		}
		maps.Copy(r.Config, some)
	}
	r.Sent = time.Now()
	r.Clock, err = c.Time(ctx).Result()
	r.Received = time.Now()
	if err = refused("TIME", err); err == nil && !r.Clock.IsZero() {
		list = append(list, kit.CompareClocks(where, r.Clock, time.Microsecond, r.Sent, r.Received)...)
	}
	return r, append(list, kit.Apply(ServerRules, where, r)...), err
}

// KeepsWrites reports whether a server with this configuration keeps every acknowledged write across a restart.
func KeepsWrites(config map[string]string) bool {
	return config["appendonly"] == "yes" && config["appendfsync"] == "always" &&
		config["no-appendfsync-on-rewrite"] == "no"
}

// Evicts returns the policy by which a full server evicts keys, or "" if it does not evict.
func Evicts(info map[string]string) (policy string) {
	if p := info["maxmemory_policy"]; p != "noeviction" && info["maxmemory"] != "0" {
		return p
	}
	return ""
}

// ParseInfo reads the reply to INFO: lines of name:value.
func ParseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// GlobEscaper escapes a text for a pattern of SCAN.
var GlobEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
