package redis

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
)

// If the Sentinels do not know the master, the error names the master, and go-redis' log lines go to the context's
// logger.
func TestUnknownSentinelMaster(t *testing.T) {
	set := servers.RedisSentinel(t)
	url := strings.Replace(sentinelURLOf(set), "/"+set.Name, "/nobody%0A", 1)
	var log lockedLog
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ctx = kit.WithLogger(ctx, slog.New(slog.NewTextHandler(&log, nil)))
	_, err := openURL(ctx, url)
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), `do not know a master "nobody\n"`) {
		t.Errorf("%v", err)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if !strings.Contains(log.b.String(), "sentinel: GetMasterAddrByName") {
		t.Errorf("the logger has %q", log.b.String())
	}
}

type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}
