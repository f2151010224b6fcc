package link

import "testing"

// Stranded connections pass nothing and stay open. New connections work. DeliverStranded forwards to the store what the
// stranded connections have received.
func TestStrand(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	dead := dial(t, l.Addrs()[0])
	dead.ping()
	l.Hold(toStore)
	dead.send("one")
	arrived(t, l, toStore, 7)
	l.Strand()
	dead.send("two")
	dead.silent()
	c := dial(t, l.Addrs()[0])
	c.ping()
	e.received(t, "pingping")
	l.DeliverStranded()
	e.received(t, "pingpingonetwo")
	dead.silent()
	c.ping()
	l.Heal()
	dead.ended()
	c.ping()

	l.Hold(toStore)
	c.send("late") // delivered although its sender has closed the connection
	arrived(t, l, toStore, 26)
	l.Strand()
	c.Close()
	l.DeliverStranded()
	e.received(t, "pingpingonetwopingpinglate")

	c = dial(t, l.Addrs()[0])
	c.ping()
	l.Hold(toStore)
	c.send("last")
	arrived(t, l, toStore, 34)
	l.Orphan()
	c.ended()
	dial(t, l.Addrs()[0]).ping()
	e.received(t, "pingpingonetwopingpinglatepingping")
	l.DeliverStranded()
	e.received(t, "pingpingonetwopingpinglatepingpinglast")
}
