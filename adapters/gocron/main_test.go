package gocronlock_test

import (
	"os"
	"testing"

	"github.com/go-co-op/gocron/v2"

	"github.com/anylock/lock/internal/adaptertest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(leadEnv); url != "" {
		leadUntilKilled(url)
	}
	adaptertest.Main(m)
}

func TestPage(t *testing.T) {
	adaptertest.Page(t, "../../docs/adapters/gocron.md", "example_test.go")
}

func onStores(t *testing.T, test func(t *testing.T, url string)) {
	adaptertest.OnStores(t, test, "redis", "file")
}

// schedule returns a scheduler that shuts down at the end of the test, before what was opened earlier is closed.
func schedule(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return s
}
