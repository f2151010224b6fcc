package servers

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestMemcached(t *testing.T) {
	s := Memcached(t, "-m", "8")
	ask := func() map[string]string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		stats, err := MemcachedStats(ctx, s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return stats
	}
	first := ask()
	if first["limit_maxbytes"] != "8388608" {
		t.Errorf("limit_maxbytes is %s: the test's own options are not used", first["limit_maxbytes"])
	}
	s.Kill()
	s.Start()
	if again := ask(); again["pid"] == first["pid"] && s.Dir != "" {
		t.Errorf("process %s after a restart, as before", again["pid"])
	}
	s.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := MemcachedStats(ctx, s.Addr); err == nil {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	ask()
}

// A server that was frozen answers nobody any more, however busy the machine is.
func TestFreezeIsOver(t *testing.T) {
	s := Memcached(t, "-t", "8")
	busy, stop := context.WithCancel(context.Background())
	defer stop()
	for range 4 * runtime.GOMAXPROCS(0) { // processors are short
		go func() {
			for busy.Err() == nil {
			}
		}()
	}
	for range 10 {
		s.Freeze()
		for range 4 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			if _, err := MemcachedStats(ctx, s.Addr); err == nil {
				t.Error("a frozen server answers")
			}
			cancel()
		}
		s.Thaw()
	}
}
