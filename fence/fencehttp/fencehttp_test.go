package fencehttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/fence/fencehttp"
)

// A write with a token below the highest token seen does not reach the resource.
func TestProtect(t *testing.T) {
	var written []string
	guards := map[string]*fence.Guard{"/a": new(fence.Guard), "/b": new(fence.Guard)}
	h := fencehttp.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		written = append(written, r.Method+r.URL.Path+" "+r.Header.Get(fencehttp.Header))
	}), func(r *http.Request) *fence.Guard {
		if r.Method == http.MethodGet {
			return nil
		}
		return guards[r.URL.Path]
	})
	for _, c := range []struct {
		method, path string
		tokens       []string
		want         int
	}{
		{"PUT", "/a", []string{"5"}, 200},
		{"PUT", "/a", []string{"5"}, 200},
		{"PUT", "/b", []string{"3"}, 200},
		{"PUT", "/a", []string{"9"}, 200},
		{"PUT", "/a", []string{"8"}, 412},
		{"PUT", "/b", []string{"8"}, 200},
		{"PUT", "/a", nil, 428},
		{"GET", "/a", nil, 200},
		{"PUT", "/a", []string{"0"}, 400},
		{"PUT", "/a", []string{"-1"}, 400},
		{"PUT", "/a", []string{"9223372036854775808"}, 400},
		{"PUT", "/a", []string{"18446744073709551616"}, 400},
		{"PUT", "/a", []string{"nine"}, 400},
		{"PUT", "/a", []string{"10", "11"}, 400},
		{"PUT", "/a", []string{"9"}, 200},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header[fencehttp.Header] = c.tokens
		before := len(written)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want || (len(written) > before) != (c.want == 200) {
			t.Errorf("%s %s with %q: %d %s, %d written", c.method, c.path, c.tokens, w.Code, strings.TrimSpace(w.Body.String()),
				len(written)-before)
		}
	}
}

func TestSetToken(t *testing.T) {
	r := httptest.NewRequest("PUT", "/", nil)
	fencehttp.SetToken(r, 1<<63-1)
	if token, err := fencehttp.Token(r); err != nil || token != 1<<63-1 {
		t.Error(token, err)
	}
}

// Protect and ProtectShared with the same Guard refuse stale writes and stale reads.
func TestProtectShared(t *testing.T) {
	var g fence.Guard
	guard := func(*http.Request) *fence.Guard { return &g }
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	write, read := fencehttp.Protect(served, guard), fencehttp.ProtectShared(served, guard)
	for i, c := range []struct {
		handler http.Handler
		token   uint64
		want    int
	}{
		{read, 512, http.StatusOK},
		{read, 256, http.StatusOK},
		{write, 300, http.StatusPreconditionFailed},
		{write, 768, http.StatusOK},
		{read, 512, http.StatusPreconditionFailed},
		{read, 0, http.StatusBadRequest},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		fencehttp.SetToken(r, c.token)
		answer := httptest.NewRecorder()
		c.handler.ServeHTTP(answer, r)
		if answer.Code != c.want {
			t.Errorf("request %d with token %d: status %d, want %d", i, c.token, answer.Code, c.want)
		}
	}
}
