package conformance

import (
	"time"

	"github.com/anylock/lock/backend/kit"
)

var calledAtCloseChecks = []Check{
	{
		Name: "CloseEndsCallsUnderWay",
		Rule: "rule 10: Close leaks nothing: a call of any method that is under way at Close, and gets no reply, returns " +
			"within a bounded time, and so does Close; its error is not that of a context that has not ended",
		Needs: []Need{needsLinked},
		run:   closeEndsCallsUnderWay,
	},
}

// closeEndsCallsUnderWay makes calls whose contexts do not end.
func closeEndsCallsUnderWay(t *trial) {
	c, link := t.linked()
	t.usable(c)
	held := t.acquire(c, t.newKey(), t.long())
	all, _ := t.methods(c, held)
	link.Hold(FromStore)
	var calls []*call
	for _, m := range all {
		calls = append(calls, t.call(func() error { return m.do(t.ctx) }))
	}
	time.Sleep(underWay)
	closed := t.call(c.Close)
	if err := closed.ends(t, 2*soon, "Close with calls under way that get no reply"); err != nil {
		t.fatalf("Close with calls under way that get no reply: %v", err)
	}
	for i, call := range calls {
		if err := call.ends(t, soon, all[i].name+" that was under way at Close"); kit.IsContextError(err) {
			t.fatalf("%s that was under way at Close: %v, although its context has not ended", all[i].name, err)
		}
	}
}
