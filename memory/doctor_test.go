package memory_test

import (
	"testing"

	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
)

func TestDoctor(t *testing.T) {
	b := client(t, memory.NewStore())
	storetest.Finds(t, b, "one-process")
	storetest.Healthy(t, b)
}
