package etcd

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/anylock/lock/backend/kit"
)

// A slowAuth is a server whose log-ins take long. It accepts only the latest simple token, but every JWT.
type slowAuth struct {
	pb.UnimplementedAuthServer
	pb.UnimplementedKVServer
	takes    time.Duration
	validity time.Duration // the lifetime in the JWTs; 0: the tokens are not JWTs

	hangs                    atomic.Bool
	inProgress, most, logIns atomic.Int64
	mu                       sync.Mutex
	token                    string // empty if none is valid
	rejected                 int
}

func (s *slowAuth) Authenticate(ctx context.Context, _ *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	s.most.Store(max(s.most.Load(), s.inProgress.Add(1)))
	defer s.inProgress.Add(-1)
	if md, _ := metadata.FromIncomingContext(ctx); len(md.Get(rpctypes.TokenFieldNameGRPC)) > 0 {
		return nil, rpctypes.ErrGRPCInvalidAuthToken // like servers before 3.5
	}
	if s.hangs.Load() {
		<-ctx.Done()
	}
	time.Sleep(s.takes) // sleeps: the cost of a password's hash
	n := s.logIns.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = fmt.Sprint("simple.", n)
	if s.validity > 0 {
		claims := fmt.Sprintf(`{"exp":%d,"n":%d}`, time.Now().Add(s.validity).Unix(), n)
		s.token = "header." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature"
	}
	return &pb.AuthenticateResponse{Token: s.token}, nil
}

func (s *slowAuth) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	got := md.Get(rpctypes.TokenFieldNameGRPC)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(got) != 1 || s.token == "" || got[0] != s.token && s.validity == 0 {
		s.rejected++
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	return new(pb.RangeResponse), nil
}

// expire makes all tokens invalid.
func (s *slowAuth) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

// loggedIn serves s, and returns a client that is logged in.
func (s *slowAuth) loggedIn(t *testing.T) (*login, pb.KVClient) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterAuthServer(server, s)
	pb.RegisterKVServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	l := &login{user: "worker", password: "secret", limit: soon}
	conn, err := grpc.NewClient(listener.Addr().String(),
		append(l.options(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	leases := kit.NewLeases(nil, soon)
	t.Cleanup(func() { leases.Close() })
	if err := l.start(t.Context(), conn, leases); err != nil {
		t.Fatal(err)
	}
	return l, pb.NewKVClient(conn)
}

// All callers share one log-in, which continues after their requests have timed out.
func TestOneLogInForAllCallers(t *testing.T) {
	t.Parallel()
	s := &slowAuth{takes: 400 * time.Millisecond}
	_, kv := s.loggedIn(t)
	s.expire()
	var running sync.WaitGroup
	for range 64 {
		running.Go(func() {
			for end := time.Now().Add(3 * soon); ; {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				_, err := kv.Range(ctx, new(pb.RangeRequest))
				cancel()
				if err == nil {
					return
				}
				if time.Now().After(end) {
					t.Errorf("rejected for ever: %v", err)
					return
				}
			}
		})
	}
	running.Wait()
	if most, n := s.most.Load(), s.logIns.Load(); most != 1 || n != 2 {
		t.Errorf("%d log-ins, up to %d at once; want 2, one by one", n, most)
	}
}

// A client replaces a token that contains its expiry, and no server has to reject the token first. Requests do not wait
// for a log-in that replaces a valid token.
func TestTokenIsReplacedAhead(t *testing.T) {
	t.Parallel()
	s := &slowAuth{takes: time.Millisecond, validity: 2 * time.Second}
	l, kv := s.loggedIn(t)
	until(t, soon, "there is a second log-in", func() bool {
		if _, err := kv.Range(t.Context(), new(pb.RangeRequest)); err != nil {
			t.Fatal(err)
		}
		return s.logIns.Load() > 1
	})
	if s.rejected != 0 {
		t.Errorf("%d requests with an expired token", s.rejected)
	}
	s.hangs.Store(true)
	l.mu.Lock()
	l.token.replace = time.Now()
	l.mu.Unlock()
	begun := time.Now()
	if _, err := kv.Range(t.Context(), new(pb.RangeRequest)); err != nil || time.Since(begun) > soon/2 {
		t.Errorf("a request beside a log-in that hangs: %v after %v", err, time.Since(begun))
	}
}

func TestValidity(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for payload, want := range map[string]time.Duration{
		`{"exp":1300,"username":"u"}`: 5 * time.Minute, `{"exp":1300.9}`: 5 * time.Minute, `{"exp":990}`: -10 * time.Second,
		`{}`: 0, `{"exp":-1}`: 0, `{"exp":"soon"}`: 0, `nonsense`: 0, ``: 0,
	} {
		if got := validity("h."+base64.RawURLEncoding.EncodeToString([]byte(payload))+".s", now); got != want {
			t.Errorf("%s: %v, want %v", payload, got, want)
		}
	}
	for _, simple := range []string{"", "abc.17", "a.b.c", "a.*.c"} {
		if got := validity(simple, now); got > 0 {
			t.Errorf("%q: %v", simple, got)
		}
	}
}
