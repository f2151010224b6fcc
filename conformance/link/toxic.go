package link

import (
	"fmt"
	"strings"
	"sync"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/anylock/lock/conformance"
)

// A toxic makes the faults of a Link, in one direction of one proxy. Toxiproxy's own know single connections only, count
// nothing, and leave goroutines behind that write to a connection which has ended.
type toxic struct {
	Port string                // the key in ports
	Way  conformance.Direction // as seen from the client
}

const toxicType = "anylock_link"

func init() { toxics.Register(toxicType, new(toxic)) }

// A port is what the two toxics of one proxy share.
type port struct {
	link *Link
	half *conn // has one direction yet; guarded by link.mu
}

// ports has the port of each proxy by a name: a toxic is made from JSON, which cannot hold a pointer.
var ports sync.Map

// addFaults puts a toxic for each direction into p, which is not started yet.
func (l *Link) addFaults(p *toxiproxy.Proxy) error {
	ports.Store(p.Name, &port{link: l})
	for d, stream := range []string{conformance.ToStore: "upstream", conformance.FromStore: "downstream"} {
		_, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
			`{"type": %q, "stream": %q, "attributes": {"port": %q, "way": %d}}`, toxicType, stream, p.Name, d)))
		if err != nil {
			return err
		}
	}
	return nil
}

// NewState implements toxics.StatefulToxic. A proxy starts the two directions of a connection one after the other, and
// those of another connection afterwards: so the halves are put together.
func (t *toxic) NewState() any {
	found, ok := ports.Load(t.Port)
	if !ok {
		panic("link: a connection of a link that is closed") // its proxies have stopped before
	}
	p := found.(*port)
	l := p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	c := p.half
	if c != nil {
		p.half = nil
		return &way{conn: c, direction: t.Way}
	}
	c = &conn{link: l, ways: 2, broken: make(chan struct{}), over: make(chan struct{})}
	p.half = c
	l.conns[c] = struct{}{}
	if l.refuse || l.closed {
		c.breakLocked()
	}
	return &way{conn: c, direction: t.Way}
}

// Pipe implements toxics.Toxic. These toxics stay as long as their proxy: nothing interrupts them.
func (t *toxic) Pipe(stub *toxics.ToxicStub) { stub.State.(*way).run(stub) }
