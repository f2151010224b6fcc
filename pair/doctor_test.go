package pair_test

import (
	"testing"

	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

func TestDoctorExaminesBoth(t *testing.T) {
	b := pair.New(pair.Store{Backend: memory.NewStore().Client(), Name: "old"},
		pair.Store{Backend: memory.NewStore().Client(), Name: "new"}, 1)
	t.Cleanup(func() { b.Close() })
	list := storetest.Examined(t, b)
	if len(list) != 2 || list[0].Where != "old" || list[1].Where != "new" || list[0].Code != "one-process" {
		t.Errorf("%+v", list)
	}
}
