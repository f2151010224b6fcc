package locktests

import (
	"context"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) { storetest.VerifyTestMain(m, storetest.GoRedisDials()) }

func release(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}
