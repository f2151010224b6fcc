package containers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	answerTimeout  = 20 * time.Second // for Docker to show that it runs
	requestTimeout = time.Minute      // for any other request
)

// docker returns the connection to Docker.
var docker = sync.OnceValues(func() (provider *testcontainers.DockerProvider, err error) {
	defer func() { // testcontainers panics if it finds no Docker host
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	tclog.SetDefault(tclog.NewNoopLogger())
	// Without the name of Docker's own network, testcontainers makes another one and does not remove it.
	provider, err = testcontainers.NewDockerProvider(testcontainers.WithLogger(tclog.NewNoopLogger()),
		testcontainers.WithDefaultBridgeNetwork(testcontainers.Bridge))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
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
