package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// In fake time, as on a machine that is not busy: a silent port fails within 2 s, and is not dialled again. If the
// caller's context has a deadline, a slow server has more time.
func TestFirstReply(t *testing.T) {
	for what, c := range map[string]struct {
		patient bool
		reply   time.Duration // when the first byte is sent; 0 for never
		end     time.Duration
		err     error
	}{
		"silent":             {false, 0, 1800 * time.Millisecond, errNoFirstReply},
		"slow":               {false, 1700 * time.Millisecond, 1700 * time.Millisecond, nil},
		"slow, and patient":  {true, 2500 * time.Millisecond, 2500 * time.Millisecond, nil},
		"silent for patient": {true, 0, 3500 * time.Millisecond, errNoFirstReply},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.patient {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
					defer cancel()
				}
				client, server := net.Pipe()
				defer server.Close()
				dials := 0
				dial := expectReply(func(context.Context, string, string) (net.Conn, error) {
					dials++
					return client, nil
				}, replyLimit(ctx))
				begun := time.Now()
				conn, err := dial(ctx, "tcp", "h:1")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if c.reply > 0 {
					time.AfterFunc(c.reply, func() { _, _ = server.Write([]byte("S")) })
				}
				_, err = conn.Read(make([]byte, 1))
				if !errors.Is(err, c.err) || c.err != nil && !errors.Is(err, backend.ErrUnavailable) {
					t.Errorf("read: %v, want %v", err, c.err)
				}
				if took := time.Since(begun); took != c.end {
					t.Errorf("took %v, want %v", took, c.end)
				}
				if c.err != nil {
					if _, err := dial(ctx, "tcp", "h:1"); !errors.Is(err, errNoFirstReply) || dials > 1 {
						t.Errorf("dialled again: %v", err)
					}
					return
				}
				time.AfterFunc(time.Minute, func() { _, _ = server.Write([]byte("T")) }) // the limit is only for the first byte
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					t.Errorf("the second byte: %v", err)
				}
			})
		})
	}
}

// A connection that is closed early does not mark its address as silent.
func TestFirstReplyOfClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := expectReply(func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			t.Cleanup(func() { _ = server.Close() })
			return client, nil
		}, firstReplyLimit)
		for range 2 {
			conn, err := dial(t.Context(), "tcp", "h:1")
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			time.Sleep(2 * firstReplyLimit)
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("read: %v", err)
			}
		}
	})
}

// Opening fails after firstReplyLimit if the port accepts connections and never replies, with and without TLS.
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
			// The margin of 1.5 s is for a busy machine.
			storetest.Within(t, firstReplyLimit+1500*time.Millisecond, "opening", func() {
				_, err := openURL(context.Background(), "postgres://u@"+silent.Addr().String()+"/db"+params)
				if !errors.Is(err, backend.ErrUnavailable) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
