package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	dockerAnswers = 20 * time.Second // for Docker to show that it is there
	dockerPulls   = 5 * time.Minute  // for an image to be downloaded
	dockerRequest = time.Minute      // for any other request
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
	// Without the name of Docker's own network it makes another one, and leaves it.
	provider, err = testcontainers.NewDockerProvider(testcontainers.WithLogger(tclog.NewNoopLogger()),
		testcontainers.WithDefaultBridgeNetwork(testcontainers.Bridge))
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
	_ = sweep(ctx, provider, podLabel, podLives+startTimeout) // to tidy up is not the test's business
	return provider, nil
})

// sweep removes what tests have left that were killed: containers with label that were made so long ago that their pods
// have ended by themselves.
func sweep(ctx context.Context, provider *testcontainers.DockerProvider, label string, age time.Duration) error {
	defer provider.Close()
	list, err := provider.Client().ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", label),
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list.Items {
		if time.Since(time.Unix(c.Created, 0)) < age {
			continue
		}
		_, err := provider.Client().ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

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
