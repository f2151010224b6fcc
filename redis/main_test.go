package redis

import (
	"testing"

	"github.com/anylock/lock/redis/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m, sharedServer.life.stop) }
