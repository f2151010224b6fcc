package servers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
)

// PodImageEnv names the environment variable with the image that holds a pod, if it is not to be busybox:1. It needs the
// program sleep only, which images of servers may lack.
const PodImageEnv = "ANYLOCK_TEST_POD_IMAGE"

const (
	podImage = "busybox:1"
	podLives = time.Hour // then a pod ends by itself, should its test have been killed
)

// podLabel is on every container of a test.
const podLabel = "org.anylock.test"

// A pod is a group of containers that share one network and one process space, as if they ran on one host: they reach
// each other on 127.0.0.1, and the ports are published on this machine's 127.0.0.1. A container of its own holds the pod:
// the pod outlives a killed server, so that the port stays its own.
type pod struct {
	provider *testcontainers.DockerProvider
	image    string // of the servers
	holder   testcontainers.Container
	ports    []int
}

// newPod makes a pod that lives until the test ends. An error says why there can be no container.
func newPod(t testing.TB, image string, ports int) (*pod, error) {
	t.Helper()
	provider, err := docker()
	if err != nil {
		return nil, fmt.Errorf("docker cannot be used: %w", err)
	}
	for _, image := range []string{podHolder(), image} {
		if err := pull(provider, image); err != nil {
			return nil, fmt.Errorf("image %s: %w", image, err)
		}
	}
	const attempts = 5
	for attempt := 1; ; attempt++ {
		p := &pod{provider: provider, image: image}
		for range ports {
			p.ports = append(p.ports, freePort(t))
		}
		err := p.open()
		if err == nil {
			t.Cleanup(func() {
				if err := p.terminate(p.holder); err != nil {
					t.Errorf("servers: end a pod: %v", err)
				}
			})
			return p, nil
		}
		if p.holder != nil {
			err = errors.Join(err, p.terminate(p.holder))
		}
		if attempt == attempts || !strings.Contains(err.Error(), "already") {
			return nil, fmt.Errorf("pod: %w", err)
		}
	}
}

func podHolder() string {
	if image := os.Getenv(PodImageEnv); image != "" {
		return image
	}
	return podImage
}

// open starts the container that holds the pod's ports.
func (p *pod) open() error {
	var exposed []string
	bindings := network.PortMap{}
	for _, n := range p.ports {
		port := network.MustParsePort(strconv.Itoa(n) + "/tcp")
		exposed = append(exposed, port.String())
		bindings[port] = []network.PortBinding{{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(n)}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), dockerRequest)
	defer cancel()
	var err error
	p.holder, err = p.provider.RunContainer(ctx, testcontainers.ContainerRequest{
		Image:              podHolder(),
		Labels:             map[string]string{podLabel: "true"},
		Entrypoint:         []string{"sleep"},
		Cmd:                []string{strconv.Itoa(int(podLives.Seconds()))},
		ExposedPorts:       exposed,
		HostConfigModifier: func(c *container.HostConfig) { c.PortBindings = bindings },
	})
	return err
}

func (p *pod) terminate(c testcontainers.Container) error {
	ctx, cancel := context.WithTimeout(context.Background(), dockerRequest)
	defer cancel()
	defer p.provider.Close()
	return c.Terminate(ctx, testcontainers.StopTimeout(0))
}
