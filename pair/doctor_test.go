package pair_test

import (
	"context"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

// noticed is a store with one finding.
type noticed struct{ backend.Backend }

func (noticed) Examine(context.Context) ([]backend.Finding, error) {
	return []backend.Finding{{Code: "noticed"}}, nil
}

func TestDoctorExaminesBoth(t *testing.T) {
	b := pair.New(pair.Store{Backend: noticed{memory.NewStore().Client()}, Name: "old"},
		pair.Store{Backend: noticed{memory.NewStore().Client()}, Name: "new"}, 1)
	t.Cleanup(func() { b.Close() })
	list := storetest.Examined(t, b)
	if len(list) != 2 || list[0].Where != "old" || list[1].Where != "new" || list[0].Code != "noticed" {
		t.Errorf("%+v", list)
	}
}
