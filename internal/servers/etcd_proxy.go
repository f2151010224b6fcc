package servers

import (
	"context"
	"fmt"
	"net/http"
	"testing"
)

// EtcdProxy starts "etcd grpc-proxy" in front of endpoints, with the program installed on this machine. The proxy
// serves clients without TLS.
func EtcdProxy(t testing.TB, endpoints string, args ...string) *Server {
	t.Helper()
	return startEtcdProxy(t, etcdKind, endpoints, args)
}

// EtcdProxyCurrent is [EtcdProxy] with the current release of etcd.
func EtcdProxyCurrent(t testing.TB, endpoints string, args ...string) *Server {
	t.Helper()
	return startEtcdProxy(t, etcdCurrentKind, endpoints, args)
}

func startEtcdProxy(t testing.TB, k kind, endpoints string, args []string) *Server {
	t.Helper()
	return k.source(t).start(t, launch{
		command: func(at place) ([]string, map[string]string) {
			addr := bindHost + ":" + at.port
			return append([]string{"grpc-proxy", "start", "--listen-addr", addr, "--advertise-client-url", addr,
				"--endpoints", endpoints}, args...), nil
		},
		ready: etcdProxyReady,
	})
}

// etcdProxyReady requests the health of the proxy's servers.
func etcdProxyReady(ctx context.Context, s *Server) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd grpc-proxy: %s", resp.Status)
	}
	return nil
}
