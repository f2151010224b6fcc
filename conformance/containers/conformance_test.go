package containers

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	_ "github.com/anylock/lock/etcd"
	"github.com/anylock/lock/internal/servers"
	_ "github.com/anylock/lock/memcached"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/zookeeper"
)

func TestConformance(t *testing.T) {
	if _, err := docker(); err != nil {
		servers.Missing(t, "Docker cannot be used: %v", err)
	}
	for _, i := range images {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, i, func(ctx context.Context, addr string) error { return answers(ctx, at(i.url, addr)) })
			url := at(i.url, s.addr)
			conformance.RunCore(t, func(t *testing.T) conformance.Harness {
				return conformance.Harness{
					Open:         func(ctx context.Context) (backend.Backend, error) { return open(ctx, url) },
					Freeze:       s.Freeze,
					Thaw:         s.Thaw,
					Restart:      s.Restart,
					RestartEmpty: s.RestartEmpty,
					Linked:       link.URL(url),
					Many:         i.many,
				}
			}, "cuts", "faults")
		})
	}
}

// open opens a store as package lock does.
func open(ctx context.Context, url string) (backend.Backend, error) {
	b, _, err := driver.Open(ctx, url)
	return b, err
}

// answers asks the store once who holds a key.
func answers(ctx context.Context, url string) error {
	b, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = b.Inspect(ctx, "anylock-ready")
	return err
}

// scripts/docker-images pulls the images, or builds stand-ins.
func TestScriptKnowsEveryImage(t *testing.T) {
	script, err := os.ReadFile("../../scripts/docker-images")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "\nimages=(")
	list, _, _ = strings.Cut(list, ")")
	var want []string
	for _, i := range images {
		want = append(want, i.ref)
	}
	if got := strings.Fields(list); !slices.Equal(got, want) {
		t.Errorf("it has %v, the tests run %v", got, want)
	}
}
