package redistest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/redis/internal/exchange"
)

// Digests checks that the digests of scripts match their texts. A digest that does not match costs a failed request at
// each use.
func Digests(t *testing.T, scripts map[string]exchange.Script) {
	t.Helper()
	for name, s := range scripts {
		sum := sha1.Sum([]byte(s.Text))
		if got := hex.EncodeToString(sum[:]); got != s.Digest {
			t.Errorf("%s: digest is %s, want %s", name, s.Digest, got)
		}
	}
}

// ProbeIsComplete checks that a probe runs exactly the commands that the scripts run.
func ProbeIsComplete(t *testing.T, probed []string, scripts map[string]exchange.Script) {
	t.Helper()
	called := regexp.MustCompile(`\b(?:call|pcall|write)\('([A-Z]+)'`)
	var want, got []string
	for _, s := range scripts {
		for _, m := range called.FindAllStringSubmatch(s.Text, -1) {
			want = append(want, m[1])
		}
	}
	for _, p := range probed {
		command, _, _ := strings.Cut(p, " ")
		got = append(got, command)
	}
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("probes %s, scripts run %s", got, want)
	}
}

// RefusedFor checks that opening a store fails with an error that names exactly the commands that the server lacks or
// forbids.
func RefusedFor(t *testing.T, url string, commands ...string) {
	t.Helper()
	b, _, err := driver.Open(context.Background(), url)
	if err == nil {
		_ = b.Close()
		t.Errorf("%s: opened, want it refused for %s", driver.Redact(url), commands)
		return
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
	slices.Sort(commands)
	if !slices.Equal(got, commands) {
		t.Errorf("%v names %s, want %s", err, got, commands)
	}
}
