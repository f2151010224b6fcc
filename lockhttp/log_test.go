package lockhttp_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/lockhttp"
)

// A stuckHandler is a handler of log messages whose output nobody reads.
type stuckHandler struct {
	slog.Handler
	called  chan struct{} // receives an element for each message
	proceed chan struct{}
}

func (h stuckHandler) Handle(context.Context, slog.Record) error {
	h.called <- struct{}{}
	<-h.proceed
	return nil
}

// A logger that blocks delays no request: not while it logs a loss, and not while it logs the request itself.
func TestBlockedLogger(t *testing.T) {
	h := stuckHandler{slog.Default().Handler(), make(chan struct{}, 10), make(chan struct{})}
	s, err := lockhttp.New(newLocks(t), lockhttp.Options{Logger: slog.New(h), StartDelay: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	defer close(h.proceed)
	do := func(want int, method, target string) string {
		t.Helper()
		replied := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			r := httptest.NewRecorder()
			s.ServeHTTP(r, httptest.NewRequest(method, target, nil))
			replied <- r
		}()
		select {
		case r := <-replied:
			if want != 0 && r.Code != want {
				t.Errorf("%s %s: %d %s, want %d", method, target, r.Code, r.Body, want)
			}
			return r.Body.String()
		case <-time.After(20 * time.Second):
			t.Fatalf("%s %s: no reply while the logger blocks", method, target)
		}
		return ""
	}
	do(200, "PUT", of("stays", "owner", "a", "ttl_ms", "60000"))
	do(0, "PUT", of("expires", "owner", "a", "ttl_ms", "50")) // 410 if the machine stalls
	<-h.called
	do(200, "POST", path("stays", "/renew", "owner", "a", "ttl_ms", "60000"))
	_, owner, _ := strings.Cut(do(200, "PUT", of("broken", "owner", "a", "ttl_ms", "60000")), `"lease":"`)
	owner, _, _ = strings.Cut(owner, `"`)
	do(204, "POST", path("broken", "/break", "owner", owner))
	<-h.called
	do(200, "GET", "/v1/status")
}
