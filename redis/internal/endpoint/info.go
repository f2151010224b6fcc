package endpoint

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A Reading is what a server says of itself: INFO, and CONFIG where that is permitted.
type Reading struct {
	Info, Config map[string]string // config is empty where CONFIG is not permitted

	Clock           time.Time // what the server's says, zero where TIME is not permitted
	Asked, Answered time.Time // before the request and after the reply
}

// Number is a number in INFO, 0 if there is none.
func (r Reading) Number(name string) int64 {
	n, _ := strconv.ParseInt(r.Info[name], 10, 64)
	return n
}

// ServerRules are those of any server, for a T that contains the reading of one.
func ServerRules[T any](of func(T) Reading) []kit.Rule[T] {
	return []kit.Rule[T]{
		{Severity: backend.Warning, Code: "old-version", Found: func(t T) string {
			r := of(t)
			return kit.When(olderThan(r.Info["redis_version"], 6, 2), "redis %s", r.Info["redis_version"])
		},
			Why: "versions before 6.2 no longer get fixes", Set: "a maintained version"},
		{Severity: backend.Warning, Code: "memory-nearly-full", Found: func(t T) string {
			r := of(t)
			used, most := r.Number("used_memory"), r.Number("maxmemory")
			return kit.When(most > 0 && used > most/10*9, "%d of maxmemory %d bytes are used", used, most)
		},
			Why: "a full server refuses writes, or evicts keys", Set: "a larger maxmemory, or a server only for locks"},
	}
}

// olderThan reports whether a version is one before major.minor. One that cannot be parsed is not.
func olderThan(version string, major, minor int) bool {
	var v [2]int
	n, _ := fmt.Sscanf(version, "%d.%d", &v[0], &v[1])
	return n == len(v) && (v[0] < major || v[0] == major && v[1] < minor)
}

// Read asks a server about itself, and reports what it does not say, and whether its clock is wrong.
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
	r.Asked = time.Now()
	r.Clock, err = c.Time(ctx).Result()
	r.Answered = time.Now()
	if err = refused("TIME", err); err == nil && !r.Clock.IsZero() {
		list = append(list, kit.CompareClocks(where, r.Clock, time.Microsecond, r.Asked, r.Answered)...)
	}
	return r, list, err
}

// KeepsWrites reports whether a server with this configuration still has, when it starts again, every write that it has
// answered.
func KeepsWrites(config map[string]string) bool {
	return config["appendonly"] == "yes" && config["appendfsync"] == "always" &&
		config["no-appendfsync-on-rewrite"] == "no"
}

// oldestMajor is the first version of Redis that has all commands of the scripts, ZPOPMIN above all.
const oldestMajor = 5

// TooOld is the error of a server that lacks commands, nil if it has all, or says nothing of its version.
func TooOld(info map[string]string) error {
	if olderThan(info["redis_version"], oldestMajor, 0) {
		return fmt.Errorf("redis %q is older than %d.0", info["redis_version"], oldestMajor)
	}
	return nil
}

// Evicts returns the policy by which a server evicts keys when it is full, "" if it does not.
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

// GlobEscaper makes a pattern of SCAN that matches a text.
var GlobEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
