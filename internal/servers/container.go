package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

const containerDir = "/anylock" // where a server runs, with its files

// node makes a node that runs command in the pod.
func (p *pod) node(files map[string]string, command ...string) (node, error) {
	req := testcontainers.ContainerRequest{
		Image:      p.image,
		Labels:     map[string]string{podLabel: "true"},
		Entrypoint: command[:1],
		Cmd:        command[1:],
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
	done      chan struct{} // closed when what the last start began has ended
}

func (c *contained) start() error {
	err := c.request(func(ctx context.Context) error { return c.container.Start(ctx) })
	if err != nil {
		return err
	}
	done := make(chan struct{})
	c.done = done
	go func() {
		defer close(done)
		defer c.pod.provider.Close()
		ended := c.pod.provider.Client().ContainerWait(context.Background(), c.container.GetContainerID(),
			client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-ended.Result:
		case <-ended.Error: // Docker itself has ended
		}
	}()
	return nil
}

// signal freezes and thaws all processes of the container at once; a signal would reach the first one only.
func (c *contained) signal(sig signal) error {
	return c.request(func(ctx context.Context) error {
		if sig == sigStop {
			return c.freeze(ctx)
		}
		_, err := c.pod.provider.Client().ContainerUnpause(ctx, c.container.GetContainerID(), client.ContainerUnpauseOptions{})
		return err
	})
}

// freeze tries again: the runtime gives up when the threads of a server have not all come to rest within a moment, as on
// a busy machine.
func (c *contained) freeze(ctx context.Context) error {
	const pause = 20 * time.Millisecond
	for {
		_, err := c.pod.provider.Client().ContainerPause(ctx, c.container.GetContainerID(), client.ContainerPauseOptions{})
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
		time.Sleep(pause)
	}
}

// kill does not stop the container: that would ask the server to end before it is killed.
func (c *contained) kill() error {
	return c.request(func(ctx context.Context) error {
		docker, id := c.pod.provider.Client(), c.container.GetContainerID()
		if _, err := docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
			if state, stateErr := c.container.State(ctx); stateErr == nil && !state.Running {
				return nil // Docker refuses to kill what does not run
			}
			return err
		}
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (c *contained) exited() <-chan struct{} { return c.done }

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
