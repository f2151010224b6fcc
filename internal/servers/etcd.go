package servers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// EtcdEnv names the environment variable with the URL of an etcd that tests may use.
const EtcdEnv = "ANYLOCK_TEST_ETCD_URL"

// EtcdURL returns the URL of an etcd for tests that do not break their server: $ANYLOCK_TEST_ETCD_URL, or that of a new
// server started by [Etcd].
func EtcdURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(EtcdEnv); url != "" {
		return url
	}
	return "etcd://" + Etcd(t).Addr
}

// Etcd starts an etcd for the test, a cluster of one, with the program installed on this machine. args are additional
// options, which override the defaults. A killed and restarted server keeps its data.
func Etcd(t testing.TB, args ...string) *Server {
	t.Helper()
	return startEtcd(t, etcdKind, args)
}

// EtcdCurrent is [Etcd] with the current release of etcd, which is built if it is missing on this machine.
func EtcdCurrent(t testing.TB, args ...string) *Server {
	t.Helper()
	return startEtcd(t, etcdCurrentKind, args)
}

func startEtcd(t testing.TB, k kind, args []string) *Server {
	t.Helper()
	g := k.source(t)
	spec := g.newEtcdSpec(t)
	spec.options = args
	return g.start(t, spec.launch())
}

// EtcdAuth starts an etcd with authentication, with the program installed on this machine. args are additional options.
// user may use the keys that begin with prefix. password is the password of user and of root.
func EtcdAuth(t testing.TB, user, password, prefix string, args ...string) *Server {
	t.Helper()
	return startEtcdAuth(t, etcdKind, user, password, prefix, nil, args)
}

// EtcdJWT is [EtcdAuth] with signed tokens, which expire ttl after the log-in even if they are used.
func EtcdJWT(t testing.TB, user, password, prefix string, ttl time.Duration, args ...string) *Server {
	t.Helper()
	private, public := signingKey(t)
	return startEtcdAuth(t, etcdKind, user, password, prefix, map[string]string{"jwt.key": private, "jwt.pub": public},
		append([]string{"--auth-token", fmt.Sprintf("jwt,pub-key=jwt.pub,priv-key=jwt.key,sign-method=ES256,ttl=%v", ttl)},
			args...))
}

// signingKey returns a new pair of keys as PEM.
func signingKey(t testing.TB) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}))
}

func startEtcdAuth(
	t testing.TB, k kind, user, password, prefix string, files map[string]string, args []string,
) *Server {
	t.Helper()
	g := k.source(t)
	spec := g.newEtcdSpec(t)
	// By default a log-in costs 80 ms of processor time, which a busy machine cannot provide within a request's timeout.
	spec.options, spec.files = append([]string{"--bcrypt-cost", "4"}, args...), files
	s := g.start(t, spec.launch())
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := spec.enableAuth(ctx, s.Addr, user, password, prefix); err != nil {
		t.Fatalf("servers: etcd: enable authentication: %v", err)
	}
	spec.client.user, spec.client.password = "root", password
	s.ready = spec.ready
	return s
}

func (spec etcdSpec) enableAuth(ctx context.Context, addr, user, password, prefix string) error {
	const role, root = "locks", "root"
	type m = map[string]any
	for _, step := range []struct {
		path    string
		request m
	}{
		{"user/add", m{"name": root, "password": password}},
		{"role/add", m{"name": root}},
		{"user/grant", m{"user": root, "role": root}},
		{"user/add", m{"name": user, "password": password}},
		{"role/add", m{"name": role}},
		{"role/grant", m{"name": role, "perm": m{"permType": "READWRITE", "key": []byte(prefix),
			"range_end": prefixEnd(prefix)}}},
		{"user/grant", m{"user": user, "role": role}},
		{"enable", m{}},
	} {
		// On a busy machine, a request may time out although the server executes it.
		err := until(ctx, nil, func(ctx context.Context) error {
			err := spec.client.do(ctx, []string{addr}, "/v3/auth/"+step.path, step.request, nil)
			if err != nil && strings.Contains(err.Error(), "already exists") {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prefixEnd returns the first key after all keys that begin with prefix. The last byte of prefix must not be 0xff.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}
