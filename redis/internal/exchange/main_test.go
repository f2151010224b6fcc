package exchange_test

import (
	"testing"

	"github.com/anylock/lock/redis/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m, func() error { return nil }) }
