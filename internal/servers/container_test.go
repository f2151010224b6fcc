package servers

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// inContainer starts a command of Redis' image as if it were a server.
func inContainer(t *testing.T, script string) *Server {
	t.Helper()
	if os.Getenv(ContainersEnv) != "1" {
		t.Skipf("needs %s=1: see make test-docker", ContainersEnv)
	}
	k := redisKind
	k.program = "sh"
	return k.source(t, 1).start(t, launch{
		command: func(place) ([]string, map[string]string) { return []string{"-c", script}, nil },
		ready:   func(context.Context, *Server) error { return nil },
	})
}

// eventually waits until the server's container has written text.
func eventually(t *testing.T, s *Server, text string) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); !strings.Contains(s.node.log(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("its log has no %q:\n%s", text, s.node.log())
		}
	}
}

// silent waits until the server's container writes no more, and returns its log. What it wrote last may take a while to
// get there.
func silent(t *testing.T, s *Server) string {
	t.Helper()
	last := s.node.log()
	for deadline := time.Now().Add(startTimeout); ; {
		time.Sleep(200 * time.Millisecond)
		now := s.node.log()
		if now == last {
			return now
		}
		if time.Now().After(deadline) {
			t.Fatalf("it goes on writing: %d bytes, then %d", len(last), len(now))
		}
		last = now
	}
}

func TestContainerIsKilledUnasked(t *testing.T) {
	s := inContainer(t, `trap "echo asked" TERM; echo up; while :; do sleep 0.01; done`)
	eventually(t, s, "up")
	s.Kill()
	if log := silent(t, s); strings.Contains(log, "asked") {
		t.Errorf("a signal came before the end: %s", log)
	}
}

// A server of several processes is frozen whole.
func TestContainerFreezesEveryProcess(t *testing.T) {
	s := inContainer(t, `(i=0; while :; do i=$((i+1)); echo "child $i"; sleep 0.01; done) & wait`)
	eventually(t, s, "child 5\n")
	s.Freeze()
	before := silent(t, s)
	s.Thaw()
	for deadline := time.Now().Add(startTimeout); s.node.log() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a thawed container writes no more")
		}
	}
}

// No child of a killed server goes on, although it shares its process space with others.
func TestContainerIsKilledWhole(t *testing.T) {
	s := inContainer(t, `(trap "" HUP; while :; do echo "child of $$"; sleep 0.01; done) & wait`)
	eventually(t, s, "child")
	s.Kill()
	silent(t, s)
}

// A test that is killed leaves its pod, which ends by itself; the servers end with it.
func TestContainersEndWithTheirPod(t *testing.T) {
	s := inContainer(t, "sleep 600")
	c := s.node.(*contained)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	defer c.pod.provider.Close()
	docker := c.pod.provider.Client()
	if _, err := docker.ContainerKill(ctx, c.pod.holder.GetContainerID(), client.ContainerKillOptions{}); err != nil {
		t.Fatal(err)
	}
	ended := docker.ContainerWait(ctx, c.container.GetContainerID(), client.ContainerWaitOptions{})
	select {
	case <-ended.Result:
	case err := <-ended.Error:
		t.Error(err)
	}
}

// scripts/docker-images pulls what the tests run, or makes stand-ins.
func TestScriptKnowsEveryImage(t *testing.T) {
	script, err := os.ReadFile("../../scripts/docker-images")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "\nimages=(")
	list, _, _ = strings.Cut(list, ")")
	got := strings.Fields(list)
	want := []string{podImage}
	for _, k := range []kind{redisKind, etcdKind, zooKeeperKind, postgresKind, memcachedKind} {
		want = append(want, k.image)
	}
	if !slices.Equal(got, want) {
		t.Errorf("it has %v, the tests run %v", got, want)
	}
}

func TestSweepRemovesOldContainersOnly(t *testing.T) {
	s := inContainer(t, "sleep 600")
	const label = "org.anylock.test.sweep"
	c := s.node.(*contained)
	ctx, cancel := context.WithTimeout(t.Context(), dockerRequest)
	defer cancel()
	left, err := c.pod.provider.RunContainer(ctx, testcontainers.ContainerRequest{
		Image:      podHolder(),
		Labels:     map[string]string{label: "true"},
		Entrypoint: []string{"sleep", "600"},
	})
	if err != nil {
		t.Fatal(err)
	}
	there := func() bool {
		defer c.pod.provider.Close()
		_, err := c.pod.provider.Client().ContainerInspect(ctx, left.GetContainerID(), client.ContainerInspectOptions{})
		return err == nil
	}
	if err := sweep(ctx, c.pod.provider, label, time.Hour); err != nil || !there() {
		t.Errorf("a new container: %v, there is %t", err, there())
	}
	if err := sweep(ctx, c.pod.provider, label, 0); err != nil || there() {
		t.Errorf("an old container: %v, there is %t", err, there())
	}
}

// What a test has made is gone when it ends, networks included.
func TestContainersLeaveNothing(t *testing.T) {
	s := inContainer(t, "sleep 600")
	provider := s.node.(*contained).pod.provider
	ctx, cancel := context.WithTimeout(t.Context(), dockerRequest)
	defer cancel()
	var ids []string
	t.Run("test", func(t *testing.T) {
		c := inContainer(t, "sleep 600").node.(*contained)
		ids = append(ids, c.container.GetContainerID(), c.pod.holder.GetContainerID())
	})
	defer provider.Close()
	for _, id := range ids {
		if _, err := provider.Client().ContainerInspect(ctx, id, client.ContainerInspectOptions{}); err == nil {
			t.Errorf("container %s is still there", id)
		}
	}
	networks, err := provider.Client().NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range networks.Items {
		if n.Name == testcontainers.ReaperDefault {
			t.Errorf("network %s was made", n.Name)
		}
	}
}
