package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	dockerAnswers  = 5 * time.Second // for Docker to show that it is there
	dockerPulls    = 5 * time.Minute // for an image to be downloaded
	dockerRequest  = time.Minute     // for any other request
	containerDir   = "/anylock"      // where a server runs, with its files
	podMostSeconds = "3600"          // after so long a pod ends by itself, should its test have been killed
)

// docker is the connection to Docker, made at first use.
var docker = sync.OnceValues(func() (provider *testcontainers.DockerProvider, err error) {
	defer func() { // testcontainers panics where it finds no Docker host
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	// Its reaper would hold a connection and a goroutine for as long as the process lives, which leak checks find.
	const reaper = "TESTCONTAINERS_RYUK_DISABLED"
	if _, set := os.LookupEnv(reaper); !set {
		os.Setenv(reaper, "true")
	}
	tclog.SetDefault(tclog.NewNoopLogger())
	provider, err = testcontainers.NewDockerProvider(testcontainers.WithLogger(tclog.NewNoopLogger()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dockerAnswers)
	defer cancel()
	if err := provider.Health(ctx); err != nil {
		return nil, err
	}
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, err
	}
	if host != "localhost" && host != "127.0.0.1" {
		return nil, fmt.Errorf("it publishes ports on %s, not on 127.0.0.1 (see TESTCONTAINERS_HOST_OVERRIDE)", host)
	}
	return provider, nil
})

var pulled sync.Map // image → func() error, which downloads it once

// pull makes sure that image is on this machine.
func pull(provider *testcontainers.DockerProvider, image string) error {
	once, _ := pulled.LoadOrStore(image, sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), dockerPulls)
		defer cancel()
		defer provider.Close()
		if _, err := provider.Client().ImageInspect(ctx, image); err == nil {
			return nil
		}
		return provider.PullImage(ctx, image)
	}))
	return once.(func() error)()
}

// A pod is a group of containers that share one network and one process space, as if they ran on one host: they reach
// each other on 127.0.0.1, and the ports are published on this machine's 127.0.0.1. The pod outlives a killed server, so
// that the port stays its own.
type pod struct {
	provider *testcontainers.DockerProvider
	image    string
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
	if err := pull(provider, image); err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
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
		Image:              p.image,
		Entrypoint:         []string{"sleep"},
		Cmd:                []string{podMostSeconds},
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

// node makes a node that runs command in the pod. Its log holds a line with readyLog before the server answers.
func (p *pod) node(readyLog string, files map[string]string, command ...string) (node, error) {
	req := testcontainers.ContainerRequest{
		Image:      p.image,
		Entrypoint: command[:1],
		Cmd:        command[1:],
		WaitingFor: wait.ForLog(readyLog).WithStartupTimeout(startTimeout),
		ConfigModifier: func(c *container.Config) {
			c.WorkingDir = containerDir
			c.User = "0" // the folder is root's
		},
		HostConfigModifier: func(c *container.HostConfig) {
			c.NetworkMode = container.NetworkMode("container:" + p.holder.GetContainerID())
			c.PidMode = container.PidMode("container:" + p.holder.GetContainerID()) // ends with the pod
		},
	}
	for name, text := range files {
		req.Files = append(req.Files, testcontainers.ContainerFile{
			Reader: strings.NewReader(text), ContainerFilePath: containerDir + "/" + name, FileMode: 0o600,
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), dockerRequest)
	defer cancel()
	c, err := p.provider.CreateContainer(ctx, req)
	if err != nil {
		if c != nil {
			err = errors.Join(err, p.terminate(c))
		}
		return nil, err
	}
	return &contained{pod: p, container: c}, nil
}

// A contained is a node that runs in a container.
type contained struct {
	pod       *pod
	container testcontainers.Container
}

func (c *contained) start() error {
	return c.request(func(ctx context.Context) error { return c.container.Start(ctx) })
}

func (c *contained) signal(sig signal) error {
	return c.request(func(ctx context.Context) error {
		_, err := c.pod.provider.Client().ContainerKill(ctx, c.container.GetContainerID(),
			client.ContainerKillOptions{Signal: string(sig)})
		return err
	})
}

func (c *contained) kill() error {
	now := time.Duration(0)
	return c.request(func(ctx context.Context) error { return c.container.Stop(ctx, &now) })
}

func (c *contained) exited() <-chan struct{} { return nil }

func (c *contained) pid() int { return 0 }

func (c *contained) log() string {
	var text []byte
	err := c.request(func(ctx context.Context) error {
		log, err := c.container.Logs(ctx)
		if err != nil {
			return err
		}
		defer log.Close()
		text, err = io.ReadAll(log)
		return err
	})
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(text)
}

func (c *contained) remove() error { return c.pod.terminate(c.container) }

func (c *contained) request(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), dockerRequest)
	defer cancel()
	defer c.pod.provider.Close()
	return do(ctx)
}
