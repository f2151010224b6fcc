package lockhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

const (
	locksPath     = "/v1/locks"
	terraformPath = "/v1/terraform"
)

// A call is one request and what has been parsed from it.
type call struct {
	*http.Request
	arrived time.Time // an upper bound for when the client sent it
	caller  caller
	key     string // from the path
	body    []byte
	query   url.Values
}

// A route handles one method of a path. In the path, {key} stands for a key.
type route struct {
	method, path string
	public       bool     // also for clients that have not authenticated
	needs        []Action // the caller needs a right to one of them on the key
	params       []string // of the query; below locksPath, others are refused
	serve        func(s *Server, w http.ResponseWriter, c *call)
}

func (s *Server) allRoutes() []route {
	const one = locksPath + "/{key}"
	lease := []string{"owner", "ttl_ms", "lease"} // of requests about a lease that was granted
	return []route{
		{http.MethodPut, one, false, []Action{Take},
			[]string{"owner", "ttl_ms", "wait_ms", "shared", "label", "lease", "retry"}, (*Server).serveAcquire},
		{http.MethodPost, one + "/renew", false, []Action{Take}, lease, (*Server).serveRenew},
		{http.MethodDelete, one, false, []Action{Take}, lease, (*Server).serveRelease},
		{http.MethodGet, one, false, []Action{Take, List}, nil, (*Server).serveInspect},
		{http.MethodGet, one + "/watch", false, []Action{Take}, lease, (*Server).serveWatch},
		{http.MethodPost, one + "/break", false, []Action{Break}, []string{"owner"}, (*Server).serveBreak},
		{http.MethodGet, locksPath, false, nil, []string{"prefix"}, (*Server).serveList},
		{methodLock, terraformPath + "/{key}", false, []Action{Take}, nil, (*Server).serveTerraformLock},
		{methodUnlock, terraformPath + "/{key}", false, []Action{Take}, nil, (*Server).serveTerraformUnlock},
		{http.MethodGet, "/v1/status", false, nil, nil, (*Server).serveStatus},
		{http.MethodGet, "/metrics", false, nil, nil, (*Server).serveMetrics},
		{http.MethodGet, "/v1/health", true, nil, nil, (*Server).serveHealth},
		{http.MethodGet, "/v1/openapi.json", true, nil, nil, (*Server).serveOpenAPI},
		{http.MethodGet, "/", true, nil, nil, (*Server).servePage},
	}
}

// match reports whether path, still escaped, is one of the route's, and returns the key in it. A slash in a key is %2F.
func (r *route) match(path string) (key string, ok bool) {
	before, after, hasKey := strings.Cut(r.path, "{key}")
	if !hasKey {
		return "", path == r.path
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok || len(rest) < len(after) || !strings.HasSuffix(rest, after) {
		return "", false
	}
	segment := rest[:len(rest)-len(after)]
	if strings.Contains(segment, "/") || segment == "" {
		return "", false
	}
	key, err := url.PathUnescape(segment)
	return key, err == nil
}

// routeOf returns the route of a request. If there is none, methods are the methods that exist for the path.
func (s *Server) routeOf(method, path string) (_ *route, key string, methods []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range s.routes {
		r := &s.routes[i]
		k, ok := r.match(path)
		if !ok {
			continue
		}
		if r.method == method {
			return r, k, nil
		}
		methods = append(methods, r.method)
	}
	return nil, "", methods
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	arrived := time.Now()
	answer := &recorder{ResponseWriter: w}
	r, key, methods := s.routeOf(q.Method, q.URL.EscapedPath())
	name := "none"
	if r != nil {
		name = r.path
	}
	defer func() { s.metrics.count(q.Method, name, answer.code, time.Since(arrived)) }()
	c := &call{Request: q, arrived: arrived, key: key}
	if hasBody(q) { // also for a request that is refused, because net/http then reads the body
		_ = http.NewResponseController(w).SetReadDeadline(arrived.Add(bodyTime)) // not supported by test recorders
	}
	switch err := s.checkOrigin(q, r); {
	case !s.isHostAllowed(q):
		s.refuse(answer, status{http.StatusMisdirectedRequest, "wrong_host", false},
			"this server is not known by that host name", nil)
	case err != nil:
		s.refuse(answer, status{http.StatusForbidden, "forbidden", false}, "a page of another origin may not change locks",
			nil)
	case r == nil && len(methods) > 0:
		w.Header().Set("Allow", strings.Join(methods, ", "))
		s.refuse(answer, status{http.StatusMethodNotAllowed, "method", false}, "want "+strings.Join(methods, " or "), nil)
	case r == nil:
		s.refuse(answer, status{http.StatusNotFound, "no_such_path", false}, "no such path; a slash in a key is %2F", nil)
	default:
		s.serve(answer, r, c)
	}
}

// checkOrigin returns an error if a page of another origin requests a change. A stream may extend its lease, so it
// counts as a change although its method is GET.
func (s *Server) checkOrigin(q *http.Request, r *route) error {
	if r != nil && strings.HasSuffix(r.path, "/watch") {
		post := *q
		post.Method = http.MethodPost
		q = &post
	}
	return s.origins.Check(q)
}

// serve does the checks that all routes need, and runs r.
func (s *Server) serve(w http.ResponseWriter, r *route, c *call) {
	var ok bool
	if c.caller, ok = s.access.identify(c.Request); !ok && !r.public {
		w.Header().Set("WWW-Authenticate", `Bearer realm="anylock"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="anylock", charset="UTF-8"`)
		s.refuse(w, status{http.StatusUnauthorized, "unauthorized", false}, "a valid token or certificate is needed", nil)
		return
	}
	if len(r.needs) > 0 && !c.caller.may(c.key, r.needs...) {
		s.refuse(w, status{http.StatusForbidden, "forbidden", false},
			fmt.Sprintf("client %s may not %s this key", c.caller.name(), r.needs[0]), nil)
		return
	}
	if strings.Contains(r.path, "{key}") {
		if err := backend.ValidateKey(c.key); err != nil {
			s.fail(w, err, nil)
			return
		}
	}
	if err := c.parseQuery(r); err != nil {
		s.fail(w, err, nil)
		return
	}
	if !s.readBody(w, c) {
		return
	}
	r.serve(s, w, c)
}

// parseQuery parses the query. A misspelt parameter is an error, because its default could be harmful.
func (c *call) parseQuery(r *route) (err error) {
	if c.query, err = url.ParseQuery(c.URL.RawQuery); err != nil {
		return fmt.Errorf("%w: bad query", lock.ErrInvalid)
	}
	if !strings.HasPrefix(r.path, locksPath) {
		return nil
	}
	for name, values := range c.query {
		switch {
		case !slices.Contains(r.params, name):
			return fmt.Errorf("%w: unknown parameter %q", lock.ErrInvalid, name)
		case len(values) > 1:
			return fmt.Errorf("%w: %s is given twice", lock.ErrInvalid, name)
		}
	}
	return nil
}

// bodyTime is how long a peer may take to send a body.
const bodyTime = 10 * time.Second

func hasBody(q *http.Request) bool {
	return q.Body != nil && q.Body != http.NoBody && q.ContentLength != 0
}

// readBody reads the body, because the end of the connection is noticed only after that. It reports whether to serve
// the request.
func (s *Server) readBody(w http.ResponseWriter, c *call) bool {
	if !hasBody(c.Request) {
		return true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, c.Body, s.options.MaxBody))
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		c.body = body
		return true
	}
	w.Header().Set("Connection", "close")
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		s.refuse(w, status{http.StatusRequestEntityTooLarge, "too_large", false},
			fmt.Sprintf("the body is longer than %d bytes", s.options.MaxBody), nil)
		return false
	}
	s.refuse(w, status{http.StatusRequestTimeout, "body", false}, "the body could not be read", nil)
	return false
}

// A recorder records the status of a reply.
type recorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
