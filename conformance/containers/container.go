package containers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// label is on every container. scripts/test-docker finds by it those that are left.
const label = "org.anylock.test"

// startTimeout bounds the time until a started server answers. The first start also makes a database.
const startTimeout = 90 * time.Second

// A server is a container that belongs to one test. Its methods report failures to the test.
type server struct {
	t         *testing.T
	image     image
	addr      string // on this machine, the same after a restart
	provider  *testcontainers.DockerProvider
	container testcontainers.Container
	answers   func(ctx context.Context) error // asks the server once
}

// start starts a container of the image, which ends with the test, and waits until the server answers.
func start(t *testing.T, i image, answers func(ctx context.Context, addr string) error) *server {
	t.Helper()
	provider, err := docker()
	if err != nil {
		t.Fatalf("Docker cannot be used: %v", err)
	}
	s := &server{t: t, image: i, addr: freeAddr(t), provider: provider}
	s.answers = func(ctx context.Context) error { return answers(ctx, s.addr) }
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", i.name, s.log())
		}
		s.check("remove", s.remove())
	})
	s.check("start", s.create())
	s.await()
	return s
}

// freeAddr returns a free address of 127.0.0.1. Its port is below those of outgoing connections, so that none of them
// occupies the port while the server restarts.
func freeAddr(t *testing.T) string {
	t.Helper()
	const first, last = 21000, 29000
	for port := first + int(time.Now().UnixNano()%(last-first)); port < last; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}

// create makes and starts the container.
func (s *server) create() error {
	req := testcontainers.ContainerRequest{
		Image:        s.image.reference(),
		Labels:       map[string]string{label: "true"},
		Env:          s.image.env,
		ExposedPorts: []string{s.image.port + "/tcp"},
		HostConfigModifier: func(c *container.HostConfig) {
			c.PortBindings = network.PortMap{network.MustParsePort(s.image.port + "/tcp"): {{
				HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: s.port(),
			}}}
		},
	}
	for _, word := range s.image.command {
		req.Cmd = append(req.Cmd, at(word, s.addr))
	}
	for path, text := range s.image.files {
		req.Files = append(req.Files, testcontainers.ContainerFile{Reader: strings.NewReader(text), ContainerFilePath: path,
			FileMode: 0o644})
	}
	return s.request(func(ctx context.Context) (err error) {
		s.container, err = s.provider.RunContainer(ctx, req)
		return err
	})
}

func (s *server) port() string { return s.addr[strings.LastIndexByte(s.addr, ':')+1:] }

// Freeze pauses every process of the container.
func (s *server) Freeze() {
	s.t.Helper()
	const pause = 20 * time.Millisecond
	s.check("freeze", s.request(func(ctx context.Context) error {
		for {
			_, err := s.provider.Client().ContainerPause(ctx, s.id(), client.ContainerPauseOptions{})
			// The runtime fails if some thread does not stop within a moment, as on a busy machine.
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "unable to freeze") {
				return err
			}
			time.Sleep(pause)
		}
	}))
}

// Thaw resumes a frozen container.
func (s *server) Thaw() {
	s.t.Helper()
	s.check("thaw", s.request(func(ctx context.Context) error {
		_, err := s.provider.Client().ContainerUnpause(ctx, s.id(), client.ContainerUnpauseOptions{})
		return err
	}))
}

// Restart kills the server and starts it again with its data.
func (s *server) Restart() {
	s.t.Helper()
	s.check("kill", s.request(s.kill))
	s.check("start", s.request(func(ctx context.Context) error { return s.container.Start(ctx) }))
	s.await()
}

// RestartEmpty kills the server and starts a new one on the same address.
func (s *server) RestartEmpty() {
	s.t.Helper()
	s.check("kill", s.request(s.kill))
	s.check("remove", s.remove())
	s.check("start", s.create())
	s.await()
}

// kill returns after the container has ended. Docker's stop would ask the server to end first.
func (s *server) kill(ctx context.Context) error {
	ended := s.provider.Client().ContainerWait(ctx, s.id(),
		client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := s.provider.Client().ContainerKill(ctx, s.id(),
		client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
		return err
	}
	select {
	case <-ended.Result:
		return nil
	case err := <-ended.Error:
		return err
	}
}

// remove ends the container and deletes its data.
func (s *server) remove() error {
	if s.container == nil {
		return nil
	}
	return s.request(func(ctx context.Context) error { return s.container.Terminate(ctx, testcontainers.StopTimeout(0)) })
}

// await waits until the server answers.
func (s *server) await() {
	s.t.Helper()
	if s.t.Failed() {
		s.t.FailNow()
	}
	const pause, once = 20 * time.Millisecond, 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		try, cancelTry := context.WithTimeout(ctx, once)
		err := s.answers(try)
		cancelTry()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("%s does not answer after %v: %v", s.image.name, startTimeout, err)
		case <-time.After(pause):
		}
	}
}

func (s *server) log() string {
	if s.container == nil {
		return ""
	}
	var text []byte
	err := s.request(func(ctx context.Context) error {
		log, err := s.container.Logs(ctx)
		if err != nil {
			return err
		}
		defer log.Close()
		text, err = io.ReadAll(log)
		return err
	})
	if err != nil {
		return err.Error()
	}
	const most = 8 << 10
	return string(text[max(0, len(text)-most):])
}

func (s *server) id() string { return s.container.GetContainerID() }

func (s *server) request(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return do(ctx)
}

func (s *server) check(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s %s: %v", what, s.image.name, err)
	}
}
