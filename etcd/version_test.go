package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestFlawsByVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{
		"2.3.8": 3, "3.3.25": 3, "3.4.0": 3, "3.4.30": 3, "3.4.31": 2, "3.4.37": 2, "3.4.38": 1, "3.4.41": 1, "3.4.42": 0,
		"3.5.0": 3, "3.5.12": 3, "3.5.13": 2, "3.5.22": 2, "3.5.23": 1, "3.5.27": 1, "3.5.28": 0,
		"3.6.0": 2, "3.6.4": 2, "3.6.5": 1, "3.6.8": 1, "3.6.9": 0,
		"3.7.0": 0, "3.7.3": 0, "3.8.0-alpha.0": 0, "4.0.0": 0, "": 0, "nonsense": 0, "3.x.1": 0,
	} {
		list := flawsOf(version)
		if len(list) != want {
			t.Errorf("%q: %q, want %d", version, list, want)
		}
		g := weakened(guarantees(usualMinTTL), version)
		sound := guarantees(usualMinTTL)
		if old := strings.HasPrefix(version, "2.") || strings.HasPrefix(version, "3.3.") ||
			strings.HasPrefix(version, "3.4."); old {
			sound.EnforcedBy = "wall clock of etcd's leader"
		}
		if want == 0 && g != sound || g.EnforcedBy != sound.EnforcedBy {
			t.Errorf("%q: %+v", version, g)
		}
		if want > 0 && (g.Consistency != backend.BestEffort || !strings.Contains(g.EarlyLoss, version) ||
			!strings.Contains(g.EarlyLoss, list[want-1])) {
			t.Errorf("%q: %+v", version, g)
		}
	}
}

// The guarantees follow from the server's version.
func TestGuaranteesFollowTheVersion(t *testing.T) {
	t.Parallel()
	b := opened(t, shared(t).URL())
	status, err := raw(t, strings.TrimPrefix(endpoint(b), "http://")).Status(t.Context(), endpoint(b))
	if err != nil {
		t.Fatal(err)
	}
	if g := b.Guarantees(); g != weakened(guarantees(usualMinTTL), status.Version) {
		t.Errorf("version %s: %+v", status.Version, g)
	}
}

// The guarantees do not depend on the order of the servers.
func TestWeakestVersionCounts(t *testing.T) {
	t.Parallel()
	for _, versions := range [][2]string{{"3.4.42", "3.5.28"}, {"3.4.42", "3.5.20"}, {"3.4.23", "3.7.0"}} {
		one := weakened(guarantees(usualMinTTL), versions[0], versions[1])
		other := weakened(guarantees(usualMinTTL), versions[1], versions[0])
		if one != other || one.EnforcedBy != "wall clock of etcd's leader" {
			t.Errorf("%q: %+v\nin the other order: %+v", versions, one, other)
		}
	}
}

// A server that does not report its version to the user may have every flaw. From 3.6.0 on, several versions report
// theirs to users with the role root only.
func TestRefusedVersionMayBeOld(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop(), DialTimeout: soon,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
			cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			if strings.HasSuffix(method, "/Status") {
				return rpctypes.ErrGRPCPermissionDenied
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	g := onOwnClient(t, c, s.options()).Guarantees()
	if g.Consistency != backend.BestEffort || !strings.Contains(g.EarlyLoss, "does not report its version") {
		t.Errorf("%+v", g)
	}
}

// New on an application's client finds the same guarantees as opening by URL.
func TestNewLearnsWhatOpeningLearns(t *testing.T) {
	t.Parallel()
	s := private(t, "--election-timeout", "3000") // a longer MinTTL; and the installed version may have flaws
	want := opened(t, s.URL()).Guarantees()
	if g := onOwnClient(t, raw(t, s.Addr), s.options()).Guarantees(); g != want {
		t.Errorf("New: %+v\nby URL: %+v", g, want)
	}
	if want == guarantees(usualMinTTL) {
		t.Error("the guarantees are those of a Backend that has asked nothing: the test proves nothing")
	}
}

func TestNewFailsWithoutServer(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	_, err := New(t.Context(), raw(t, "127.0.0.1:1"), nil)
	if took := time.Since(begun); !errors.Is(err, backend.ErrUnavailable) ||
		!strings.Contains(err.Error(), "connection refused") || took > soon/2 {
		t.Errorf("nobody listens: %v after %v", err, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, raw(t, shared(t).Addr), nil); !errors.Is(err, context.Canceled) ||
		errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a cancelled context: %v", err)
	}
}

func TestCurrentHasNoKnownFlaw(t *testing.T) {
	storetest.Long(t, "the current etcd is built")
	t.Parallel()
	if g := opened(t, "etcd://"+servers.EtcdCurrent(t).Addr).Guarantees(); g != guarantees(usualMinTTL) {
		t.Errorf("%+v", g)
	}
}

// Opening fails if no server reports its version. Otherwise the guarantees would be those of a version without flaws.
func TestOpeningNeedsAVersion(t *testing.T) {
	t.Parallel()
	s := shared(t)
	silent := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if strings.HasSuffix(method, "/Status") {
			<-ctx.Done()
			return ctx.Err()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(silent)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, err := New(t.Context(), c, &Options{Timeout: time.Second})
	if err == nil {
		_ = b.Close()
		t.Fatalf("opened without a version: %+v", b.Guarantees())
	}
	if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
