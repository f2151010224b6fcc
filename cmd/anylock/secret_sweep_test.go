package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/storetest"
)

// Every password of the sweep starts or ends with one of these strings. No output may contain them.
const sweepFirst, sweepLast = "Zq7", "7qZ"

// sweepForms are URLs with the scheme S, the password PW and the server's address H. The text in N(…) is escaped.
var sweepForms = []string{
	"S://u:PW@H", "S://u:PW@H/", "S://u:PW@H/0", "S://u:PW@H/name/0", "S://u:PW@H/db?x=y", "S://:PW@H/0",
	"S://u:PW@H?lock_prefix=a",
	"S://u:PW@H,H/name", "S://u:PW@[::1]:1/0", "S://u:PW@nohost.invalid/0", "S://u:PW@", "S://u:PW@/0", "S:u:PW@H",
	"S:/u:PW@H",
	"S:///u:PW@H", "S://u:PW@H#f", "S://u:PW@H:x", "S://u:PW@H:", "S://u%40d:PW@H", "S://u:PW@@H", "S://u:x@y:PW@H",
	"S://u%3APW@H",
	"S://u:PW@H/-1", "S://H/0?password=PW", "S://H/db?password=PW&sslmode=disable", "S://H/name/0?sentinel_password=PW",
	"S://H?user=u&password=PW&connect_timeout=1", "S://H?lock_secret=PW", "S://H?lock_node=N(redis://u:PW@H)",
	"S:?lock_node=redis://u:PW@H", "S:?lock_node=redis%3A//u:PW%40H",
	"S:?lock_first=N(redis://u:PW@H)&lock_second=memory:",
	"S:?lock_first=memory:&lock_second=N(postgres://u:PW@H/db?password=PW)",
	"S:?lock_first=N(redis://u:***@H)&lock_second=memory:&lock_password=PW",
}

var sweepPasswords = func() (list []string) {
	for _, middle := range []string{
		"secret", "/", "?", "#", "@", "[", "]", ":", "://", "%", "%41", "%zz", "%2F", "&", "&a=b", "&a=", "=", ";", "+", " ",
		`\`, `"`, "'",
		"é", "\xff", "\t", ",", "***", "@h/", "{|}^`",
	} {
		list = append(list, sweepFirst+middle+sweepLast)
	}
	return append(list, "/"+sweepFirst+sweepLast, "12/"+sweepFirst, "12?"+sweepLast)
}()

var sweepEscapes = []func(string) string{
	func(s string) string { return s }, url.PathEscape, url.QueryEscape,
	func(s string) string { return driver.Escape(driver.Escape(s)) },
}

// A lookupRecorder records the queries to a name server, and never replies.
type lookupRecorder struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer
}

func (r *lookupRecorder) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	_ = server.Close()
	return &lookupConn{client, r}, nil
}

type lookupConn struct {
	net.Conn
	r *lookupRecorder
}

func (c *lookupConn) Write(b []byte) (int, error) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	return c.r.sent.Write(b)
}
func (c *lookupConn) Read([]byte) (int, error) { return 0, io.EOF }

// No combination of URL, password and escape shows the password in errors, log lines, printed URLs or lookups of host
// names.
func TestNoPasswordIsShown(t *testing.T) {
	if len(sweepForms) != 34 || len(sweepPasswords) != 33 || len(sweepEscapes) != 4 {
		t.Fatalf("%d forms, %d passwords, %d escapes", len(sweepForms), len(sweepPasswords), len(sweepEscapes))
	}
	lookups := new(lookupRecorder)
	preferGo, dial := net.DefaultResolver.PreferGo, net.DefaultResolver.Dial
	net.DefaultResolver.PreferGo, net.DefaultResolver.Dial = true, lookups.dial
	t.Cleanup(func() { net.DefaultResolver.PreferGo, net.DefaultResolver.Dial = preferGo, dial })
	t.Setenv("HOME", t.TempDir()) // no .pgpass
	s := &sweep{t: t, host: storetest.NoServer, failures: 20}
	s.logger = slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	step := 1
	if testing.Short() {
		step = 23 // coprime to the numbers of forms, passwords and escapes
	}
	s.run(step, func(rawURL string) { s.open(ended, rawURL) })
	parsed := s.urls
	s.urls = 0
	// A server that refuses connections is retried until the context ends.
	step = 97
	if testing.Short() {
		step = 1009
	}
	s.run(step, func(rawURL string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		s.open(ctx, rawURL)
	})
	t.Logf("%d urls were parsed, %d opened; %d bytes of lookups", parsed, s.urls, lookups.sent.Len())
	lookups.mu.Lock()
	defer lookups.mu.Unlock()
	s.check("lookups", "any", strings.ToLower(lookups.sent.String()))
	// A store that could not be opened before its context ended is closed in the background.
	for end := time.Now().Add(10 * time.Second); goleak.Find() != nil && time.Now().Before(end); {
		runtime.Gosched() // Find itself waits
	}
}

// A sweep opens URLs and searches all output for the password.
type sweep struct {
	t        *testing.T
	host     string
	log      lockedBuffer
	logger   *slog.Logger
	urls     int
	failures int // how many more failures are reported
}

// run calls do with every step-th URL.
func (s *sweep) run(step int, do func(rawURL string)) {
	n := 0
	for _, d := range driver.Registered() {
		for _, scheme := range d.Schemes() {
			if scheme == "recorder" { // registered by another test
				continue
			}
			for _, form := range sweepForms {
				for _, password := range sweepPasswords {
					for _, escape := range sweepEscapes {
						if n++; n%step == 0 {
							s.urls++
							do(s.url(form, scheme, escape(password)))
						}
					}
				}
			}
		}
	}
}

func (s *sweep) url(form, scheme, password string) string {
	fill := strings.NewReplacer("PW", password, "H", s.host).Replace
	before, inner, ok := strings.Cut(form, "N(")
	if ok {
		inner, after, _ := strings.Cut(inner, ")")
		return scheme + before[1:] + driver.Escape(fill(inner)) + fill(after)
	}
	return scheme + fill(form[1:])
}

func (s *sweep) open(ctx context.Context, rawURL string) {
	locks, err := lock.Open(ctx, rawURL, lock.WithLogger(s.logger))
	if err == nil {
		_ = locks.Close()
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		s.check("error", rawURL, fmt.Sprintf("%v %+v", e, e))
	}
	s.check("log", rawURL, s.log.take())
	s.check("Redact", rawURL, driver.Redact(rawURL))
	// The command masks only the URL of a store that it has opened. If a pair's context has ended, its second URL was not
	// read.
	if !errors.Is(err, lock.ErrInvalid) && (err == nil || !strings.HasPrefix(rawURL, "pair:")) {
		s.check("Mask", rawURL, driver.Mask(rawURL))
	}
	c := lock.Config{URL: rawURL}
	s.check("Config", rawURL, fmt.Sprintf("%v %#v", c, c))
}

func (s *sweep) check(what, rawURL, text string) {
	for _, part := range []string{sweepFirst, sweepLast, strings.ToLower(sweepFirst), strings.ToLower(sweepLast)} {
		if strings.Contains(text, part) && s.failures > 0 {
			s.failures--
			s.t.Errorf("%s of %s: %s", what, rawURL, text)
			return
		}
	}
}

// A lockedBuffer collects the log lines of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.b.String()
	l.b.Reset()
	return text
}
