package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// Opening a port that takes connections and is not Postgres' ends after firstReplyLimit, with and without TLS.
func TestPortThatIsNotPostgres(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for _, params := range []string{"", "?sslmode=disable", "?sslmode=require"} {
		t.Run(params, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			_, err := openURL(context.Background(), "postgres://u@"+silent.Addr().String()+"/db"+params)
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("%v", err)
			}
			// The limit is a sum of the store's own; the margin is for a busy machine.
			if took := time.Since(begun); took > firstReplyLimit+1500*time.Millisecond {
				t.Errorf("took %v: %v", took, err)
			}
		})
	}
}
