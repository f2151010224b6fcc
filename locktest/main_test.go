package locktest_test

import (
	"testing"

	"github.com/anylock/lock/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }
