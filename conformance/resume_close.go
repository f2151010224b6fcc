package conformance

import (
	"math/rand/v2"
	"time"
)

var resumeCloseChecks = []Check{
	{
		Name: "CloseRacesResume",
		Rule: "Backend.Close that meets Resume gives either ErrClosed or a lease that is lost when Close returns; it ends " +
			"nothing for the lease's other client",
		run: closeRacesResume,
	},
}

// closeRacesResume closes clients at different moments of their Resume.
func closeRacesResume(t *trial) {
	const parts = 16
	workers := max(1, min(4, t.h.Many/2)) // few, because servers limit the connections of one host
	rounds := parts / workers
	part := 2 * t.typical() / parts
	t.together(workers, func(worker int) {
		for round := range rounds {
			shared := t.g.Shared && round%2 == 1
			t.closeInResume(time.Duration(worker*rounds+round)*part+rand.N(part), shared)
		}
	})
}

// closeInResume closes a client when its Resume, of a reader if shared is set, has been under way for the given time.
func (t *trial) closeInResume(after time.Duration, shared bool) {
	g := t.getterOf(shared)(t.a, t.newKey(), t.long())
	c := t.open()
	var resumed *grant
	begun := time.Now()
	call := t.call(func() (err error) { resumed, err = t.resumeBy(c, g, t.long()); return err })
	time.Sleep(after)
	closing := time.Now()
	t.closes(c)
	err := call.ends(t, soon, "Resume that met Close")
	switch {
	case err == nil && !resumed.gone():
		t.fatalf("Lost is not closed for a resumed lease whose client was closed")
	case err != nil && closing.Sub(begun) > slow && t.stoodStill() != "":
		t.tooLate("Resume that met Close after %v: %v", closing.Sub(begun), err)
	case err != nil:
		t.isClosed(err, "Resume that met Close")
	}
	t.heldBy(g)
	t.renew(g, t.long())
	t.release(g)
}
