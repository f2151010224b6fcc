package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/lockhttp"
)

// A serving is one call of "anylock serve".
type serving struct {
	app *app

	listen                           string
	tlsCert, tlsKey, clientCA        string
	clients                          string
	hosts                            []string
	plainHTTP                        bool
	ttl, maxTTL, maxWait, startDelay seconds
	maxConns, maxConnsEach           int
	maxWaiters, maxWaitersEach       int
	maxLeases, maxLeasesEach         int
}

const unixPrefix = "unix:"

// serveHelp is the long help text of serve.
const serveHelp = `serve lets programs in any language use the store's locks by HTTP requests:
acquire, renew, release, inspect, list, break, and a stream of a lease's
events. Its OpenAPI document is at /v1/openapi.json, a status page at /,
metrics for Prometheus at /metrics, and a health check at /v1/health.
docs/http.md describes the requests.

serve prints the URL that it listens on. It listens on a loopback address or a
Unix socket (unix:PATH, for its user alone). On other addresses it needs
--clients, and --tls-cert or --plain-http.

--clients names a JSON file: {"clients": [{"name": "ci", "token": "…",
"rights": [{"prefix": "ci/", "allow": ["take", "list"]}]}]}. The actions are
take, list and break. Instead of token there may be token_sha256 in
hexadecimal, or certificate, the common name or a DNS name of a client
certificate that --client-ca has signed. Without --clients, everybody who
reaches the server may do everything.

The server does not renew leases: its clients do. On most stores, clients
continue their leases after a restart of the server, or at another server on
the same store. On memory:, postgres: and zookeeper:, and on a pair: with one of
them, clients lose their leases with the server. zookeeper: keeps the keys taken
until the server's sessions have timed out. memory: and postgres: free the keys
at once. There a new server grants nothing for --start-delay. After this delay,
no client relies on a lease of the earlier server.

SIGTERM and SIGINT end the server: it answers waiting requests with 503, and
exits with 0. Leases stay at the store.

Exit codes: 0 ended by a signal; 64 wrong usage; 69 the store cannot be
reached; 71 serve cannot listen on the address; 74 the URL cannot be written;
128 + N if signal N came before the store was open.`

func (a *app) serveCommand() *cobra.Command {
	s := &serving{app: a}
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve the store's locks over HTTP",
		Long:  serveHelp,
		Example: `  anylock serve --backend redis://cache-1:6379
  anylock serve --listen unix:/run/anylock.sock --backend file:///var/lib/locks
  anylock serve --listen :7171 --tls-cert cert.pem --tls-key key.pem \
    --clients clients.json
  curl -X PUT 'http://127.0.0.1:7171/v1/locks/deploy?owner=me-1&ttl_ms=60000'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", "127.0.0.1:7171", "`ADDRESS` to listen on: HOST:PORT, or unix:PATH")
	flags.StringVar(&s.tlsCert, "tls-cert", "", "`FILE` with the server's certificate and its chain, in PEM")
	flags.StringVar(&s.tlsKey, "tls-key", "", "`FILE` with the certificate's key, in PEM")
	flags.StringVar(&s.clientCA, "client-ca", "", "`FILE` with the authorities of client certificates, in PEM")
	flags.StringVar(&s.clients, "clients", "", "JSON `FILE` with the clients and their rights")
	flags.StringArrayVar(&s.hosts, "host", nil,
		"a further host `NAME` by which clients without a token reach the server; may be repeated")
	flags.BoolVar(&s.plainHTTP, "plain-http", false,
		"allow other than loopback addresses without TLS, behind a proxy that uses TLS")
	flags.Var(&s.ttl, "ttl", "TTL of a request that names none (default 30s)")
	flags.Var(&s.maxTTL, "max-ttl", "longest TTL of a request (default 1h; 1m where keys are free when the server ends)")
	flags.Var(&s.maxWait, "max-wait", "longest wait of one request (default 1m)")
	flags.Var(&s.startDelay, "start-delay", "grant nothing for this long after the start (default --max-ttl where "+
		"keys are free when the server ends, else 0)")
	flags.IntVar(&s.maxConns, "max-connections", 25_000, "`NUMBER` of open connections")
	flags.IntVar(&s.maxConnsEach, "max-connections-per-address", 2_500, "`NUMBER` of open connections of one IP address")
	flags.IntVar(&s.maxWaiters, "max-waiters", 20_000, "`NUMBER` of requests that wait at once")
	flags.IntVar(&s.maxWaitersEach, "max-waiters-per-client", 2_000,
		"`NUMBER` of requests of one client, or address, that wait at once")
	flags.IntVar(&s.maxLeases, "max-leases", 100_000, "`NUMBER` of leases")
	flags.IntVar(&s.maxLeasesEach, "max-leases-per-client", 10_000, "`NUMBER` of leases of one client, or address")
	return cmd
}

func (s *serving) run(ctx context.Context) error {
	clients, tlsConfig, err := s.check()
	if err != nil {
		return usagef("%w", err)
	}
	notify(make(chan os.Signal, 1), signalsOfPipes) // nobody receives them: a lost reader of our log ends no server
	defer s.app.printInBackground()()
	ctx, stop := interruptible(ctx)
	locks, err := s.app.open(ctx)
	if err != nil {
		return cmp.Or(stop(), err)
	}
	defer locks.Close()
	logger := s.logger()
	handler, err := lockhttp.New(locks, s.options(clients, logger))
	if err != nil {
		return usagef("%w", err)
	}
	listener, url, err := s.bind(tlsConfig != nil)
	if err != nil {
		return &exitError{code: exitSystem, err: err}
	}
	defer listener.Close()
	if delay := handler.StartDelay(); delay > 0 {
		s.app.say("grants nothing for %v: leases of an earlier server may still be in use (--start-delay)",
			delay.Round(time.Second))
	}
	err = writeUntil(ctx, func() error { _, err := fmt.Fprintln(s.app.stdout, url); return err })
	if err != nil && ctx.Err() == nil {
		return &exitError{code: exitOutput, err: err}
	}
	server := lockhttp.NewHTTPServer(handler, logger)
	server.TLSConfig = tlsConfig
	failed := make(chan error, 1)
	go func() {
		limited := lockhttp.LimitListener(listener, s.maxConns, s.maxConnsEach)
		if tlsConfig != nil {
			failed <- server.ServeTLS(limited, "", "")
			return
		}
		failed <- server.Serve(limited)
	}()
	select {
	case err := <-failed:
		return &exitError{code: exitSystem, err: err}
	case <-ctx.Done():
	}
	_ = stop()
	return s.shutDown(handler, server)
}

// shutdownTime is how long requests in progress may take after the signal.
const shutdownTime = 10 * time.Second

func (s *serving) shutDown(handler *lockhttp.Server, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := errors.Join(handler.Shutdown(ctx), server.Shutdown(ctx)); err != nil {
		s.app.say("some requests were cut short: %v", err)
		_ = server.Close()
	}
	return nil
}

func (s *serving) logger() *slog.Logger {
	level := slog.LevelWarn
	if s.app.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(s.app.stderr, &slog.HandlerOptions{Level: level}))
}

func (s *serving) options(clients []lockhttp.Client, logger *slog.Logger) lockhttp.Options {
	o := lockhttp.Options{
		Clients: clients, DefaultTTL: s.ttl.d, MaxTTL: s.maxTTL.d, MaxWait: s.maxWait.d, StartDelay: s.startDelay.d,
		MaxWaiters: s.maxWaiters, MaxWaitersPerClient: s.maxWaitersEach,
		MaxLeases: s.maxLeases, MaxLeasesPerClient: s.maxLeasesEach,
		MaxWatchers: s.maxWaiters, MaxWatchersPerClient: s.maxWaitersEach, Logger: logger,
	}
	if s.startDelay.isSet && s.startDelay.d == 0 {
		o.StartDelay = -1
	}
	if s.maxWait.isSet && s.maxWait.d == 0 {
		o.MaxWait = -1
	}
	if len(clients) == 0 && !s.isSocket() {
		o.Hosts = append([]string{"localhost", "127.0.0.1", "::1"}, s.hosts...)
		if host, _, err := net.SplitHostPort(s.listen); err == nil {
			o.Hosts = append(o.Hosts, host)
		}
	}
	return o
}

func (s *serving) isSocket() bool { return strings.HasPrefix(s.listen, unixPrefix) }

// check validates the flags, and reads the files that they name.
func (s *serving) check() (clients []lockhttp.Client, config *tls.Config, err error) {
	if s.clients != "" {
		if clients, err = s.readClients(); err != nil {
			return nil, nil, fmt.Errorf("--clients %s: %w", show(s.clients), reason(err))
		}
	}
	if config, err = s.tlsConfig(); err != nil {
		return nil, nil, err
	}
	if err := s.checkNumbers(); err != nil {
		return nil, nil, err
	}
	switch {
	case s.listen == unixPrefix:
		return nil, nil, fmt.Errorf("--listen %s has no path", unixPrefix)
	case s.isSocket() && kit.Printable(s.listen) != s.listen:
		return nil, nil, fmt.Errorf("--listen %s: clients could not copy this path from what serve prints", show(s.listen))
	case !s.isSocket() && !strings.Contains(s.listen, ":"):
		return nil, nil, fmt.Errorf("--listen %s has no port, as in 127.0.0.1:7171", show(s.listen))
	case s.isSocket() || s.isLoopback():
	case len(clients) == 0:
		return nil, nil, fmt.Errorf("--listen %s: other machines may reach this address, so that it needs --clients",
			show(s.listen))
	case config == nil && !s.plainHTTP:
		return nil, nil, fmt.Errorf("--listen %s: tokens must not travel in the clear: use --tls-cert, or --plain-http "+
			"behind a proxy", show(s.listen))
	}
	return clients, config, nil
}

// checkNumbers refuses a limit that allows nothing.
func (s *serving) checkNumbers() error {
	for _, flag := range []struct {
		name   string
		number int
	}{
		{"max-connections", s.maxConns}, {"max-connections-per-address", s.maxConnsEach},
		{"max-waiters", s.maxWaiters}, {"max-waiters-per-client", s.maxWaitersEach},
		{"max-leases", s.maxLeases}, {"max-leases-per-client", s.maxLeasesEach},
	} {
		if flag.number < 1 {
			return fmt.Errorf("--%s %d: must be at least 1", flag.name, flag.number)
		}
	}
	if s.ttl.isSet {
		if err := checkTTL("--ttl", s.ttl.d); err != nil {
			return err
		}
	}
	if s.maxTTL.isSet {
		return checkTTL("--max-ttl", s.maxTTL.d)
	}
	return nil
}

// isLoopback reports whether only this machine can reach the address.
func (s *serving) isLoopback() bool {
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *serving) readClients() ([]lockhttp.Client, error) {
	text, err := os.ReadFile(s.clients)
	if err != nil {
		return nil, err
	}
	var file struct {
		Clients []lockhttp.Client `json:"clients"`
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text after the object with the clients")
	}
	if err := checkNames(json.NewDecoder(strings.NewReader(string(text)))); err != nil {
		return nil, err
	}
	if len(file.Clients) == 0 {
		return nil, errors.New("there are no clients in it")
	}
	if info, err := os.Stat(s.clients); err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		s.app.say("other users may read the tokens in %s: chmod 600 it", show(s.clients))
	}
	return file.Clients, nil
}

func (s *serving) tlsConfig() (*tls.Config, error) {
	switch {
	case (s.tlsCert == "") != (s.tlsKey == ""):
		return nil, errors.New("--tls-cert and --tls-key need each other")
	case s.tlsCert == "" && s.clientCA != "":
		return nil, errors.New("--client-ca needs --tls-cert")
	case s.tlsCert == "":
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(s.tlsCert, s.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if s.clientCA != "" {
		pem, err := os.ReadFile(s.clientCA)
		if err != nil {
			return nil, fmt.Errorf("--client-ca: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--client-ca %s: there is no certificate in it", show(s.clientCA))
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return config, nil
}

// bind starts to listen, and returns the URL that clients use.
func (s *serving) bind(isTLS bool) (_ net.Listener, url string, err error) {
	if s.isSocket() {
		path := strings.TrimPrefix(s.listen, unixPrefix)
		l, err := listenUnix(path)
		return l, "http+unix:" + path, err
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return nil, "", err
	}
	scheme := "http"
	if isTLS {
		scheme = "https"
	}
	return l, scheme + "://" + l.Addr().String(), nil
}

// listenUnix listens on a socket that only this user can open. It replaces the socket of a server that has died.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		conn, err := net.Dial("unix", path)
		switch {
		case err == nil:
			conn.Close()
			return nil, fmt.Errorf("%s: another server listens there", show(path))
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, fs.ErrPermission): // it is busy, or another user's
			return nil, fmt.Errorf("another server listens there: %w", err)
		}
		_ = os.Remove(path)
	}
	l, err := listenPrivately(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
