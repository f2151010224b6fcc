package memory_test

import (
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

func TestDoctor(t *testing.T) {
	findings, err := client(t, memory.NewStore()).Examine(t.Context())
	if err != nil || len(findings) != 1 || findings[0].Code != "one-process" || findings[0].Severity > backend.Info {
		t.Errorf("found %+v, %v; want one-process alone, for information", findings, err)
	}
}
