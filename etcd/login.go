package etcd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A login logs in with a user's password and adds the token to every request of a client.
//
// clientv3 logs in separately for each rejected request, within that request's time limit. If a token of many callers
// expires, their log-ins delay each other until all of them time out. A login runs at most one log-in at a time, with
// its own time limit. If a token contains its expiry, the login replaces the token before it expires.
//
// A log-in request carries no token, because servers before 3.5 reject a log-in that carries an expired token.
type login struct {
	user, password string
	limit          time.Duration    // of one log-in
	conn           *grpc.ClientConn // nil until requests need a token
	leases         *kit.Leases      // its Close waits for the log-in in progress, and then cancels it

	mu    sync.Mutex
	token *token    // nil if there is none, or the servers have rejected it
	next  *token    // of the log-in in progress; nil if there is none
	begun time.Time // when the last log-in began
}

// loginInterval is the shortest time between the starts of two log-ins: the servers may reject every token, or their
// clock may be behind the local clock.
const loginInterval = 500 * time.Millisecond

// A token is the result of a log-in. done is closed when the log-in has ended and set the other fields.
type token struct {
	done    chan struct{}
	err     error
	value   string    // empty if the servers have authentication disabled
	replace time.Time // when to log in again; zero if the token does not contain its expiry
}

// options returns the options of a connection whose requests carry the token.
func (l *login) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

// start logs in over conn. From then on, requests carry the token, and log-ins run on goroutines of leases.
func (l *login) start(ctx context.Context, conn *grpc.ClientConn, leases *kit.Leases) error {
	l.conn, l.leases = conn, leases
	_, err := l.validToken(ctx)
	return err
}

func (l *login) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) (err error) {
	if l.conn == nil || method == pb.Auth_Authenticate_FullMethodName {
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	const attempts = 3 // the user's permissions may change between a log-in and the request
	for range attempts {
		var t *token
		if t, err = l.validToken(ctx); err != nil {
			return err
		}
		if err = invoke(t.attach(ctx), method, req, reply, conn, opts...); !rejectsToken(err) {
			return err
		}
		l.discard(t)
	}
	return err
}

func (l *login) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if l.conn == nil {
		return open(ctx, desc, conn, method, opts...)
	}
	t, err := l.validToken(ctx)
	if err != nil {
		return nil, err
	}
	s, err := open(t.attach(ctx), desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &loggedInStream{s, l, t}, nil
}

// A loggedInStream discards its token when a server rejects the token, so that the next stream gets a new token.
type loggedInStream struct {
	grpc.ClientStream
	login *login
	token *token
}

func (s *loggedInStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	w, ok := m.(*pb.WatchResponse)
	refused := ok && err == nil && w.Created && w.Canceled // a user without permission gets the same reply
	if rejectsToken(err) || refused {
		s.login.discard(s.token)
	}
	return err
}

// validToken returns a token that no server has rejected so far. It waits for a log-in only if there is no such token.
func (l *login) validToken(ctx context.Context) (*token, error) {
	l.mu.Lock()
	t := l.token
	if t == nil || !t.replace.IsZero() && !time.Now().Before(t.replace) {
		if l.next == nil {
			l.next = l.logIn(l.begun.Add(loginInterval))
		}
		if t == nil {
			t = l.next
		}
	}
	l.mu.Unlock()
	select {
	case <-t.done:
		return t, t.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// discard makes the next request log in again, unless another log-in has already replaced the token.
func (l *login) discard(t *token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == t {
		l.token = nil
	}
}

// logIn starts a log-in, not before the given time.
func (l *login) logIn(soonest time.Time) *token {
	t := &token{done: make(chan struct{})}
	if !l.leases.Go(func(ctx context.Context) {
		_ = kit.Sleep(ctx, time.Until(soonest))
		begun := time.Now()
		t.err = l.request(ctx, t, begun)
		l.mu.Lock()
		l.next, l.begun = nil, begun
		if t.err == nil {
			l.token = t
		}
		l.mu.Unlock()
		close(t.done)
	}) {
		t.err = backend.ErrClosed
		close(t.done)
	}
	return t
}

// request logs in, and sets the value of t and the time for its replacement.
func (l *login) request(ctx context.Context, t *token, begun time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	var resp pb.AuthenticateResponse
	err := rpctypes.Error(l.conn.Invoke(ctx, pb.Auth_Authenticate_FullMethodName,
		&pb.AuthenticateRequest{Name: l.user, Password: l.password}, &resp))
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return nil
	}
	t.value = resp.Token
	if remaining := validity(resp.Token, begun); remaining > 0 {
		t.replace = begun.Add(remaining / 2)
	}
	return err
}

// attach returns a context whose request carries the token.
func (t *token) attach(ctx context.Context) context.Context {
	if t.value == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, t.value)
}

// rejectsToken reports whether a request failed because of its token, so that it was not carried out.
func rejectsToken(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) ||
		errors.Is(err, rpctypes.ErrUserEmpty)
}

// validity returns how long a JWT remains valid, by the local clock and the expiry in the token. The result is not
// positive if the token contains no expiry, or if the clocks differ by more than the token's lifetime.
func validity(jwt string, now time.Time) time.Duration {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 { // a simple token, which expires when it is not used
		return 0
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return 0
	}
	var claims struct {
		Expiry float64 `json:"exp"` // in Unix seconds
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expiry <= 0 {
		return 0
	}
	return time.Unix(int64(claims.Expiry), 0).Sub(now)
}

// keepLoggedIn keeps an application's own client logged in, if the client has a user and the tokens contain their
// expiry.
//
// clientv3 logs in again for each request whose token is rejected. Then the log-ins of many callers delay each other.
// Servers before 3.5 even reject a log-in that carries an expired token, which locks the client out permanently. But
// clientv3 also logs in whenever it opens a stream. So keepLoggedIn opens a stream while the token is still valid.
func (b *Backend) keepLoggedIn(ctx context.Context) error {
	if b.client.Username == "" || b.client.Password == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	begun := time.Now()
	resp, err := b.client.Auth.Authenticate(ctx, b.client.Username, b.client.Password)
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return nil
	}
	if err != nil {
		return err
	}
	if lifetime := validity(resp.Token, begun); lifetime > 0 { // all later tokens have the same lifetime
		b.leases.Go(func(context.Context) { b.logInEvery(lifetime / 2) })
	}
	return nil
}

// logInEvery logs in at once, and then at every interval until Close begins. After a failure it soon logs in again.
func (b *Backend) logInEvery(interval time.Duration) {
	const retry = time.Second
	interval = max(interval, loginInterval)
	for wait := time.Duration(0); kit.Sleep(b.leases.Closing(), wait) == nil; {
		ctx, cancel := context.WithTimeout(b.leases.Closing(), b.options.Timeout)
		_, err := pb.NewWatchClient(b.client.ActiveConnection()).Watch(ctx) // clientv3 logs in to open the stream
		cancel()
		if wait = interval; err != nil {
			wait = min(interval, retry)
		}
	}
}
