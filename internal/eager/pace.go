package eager

// A pace says when to poll for an answer: always while they come soon. Each one that does not doubles how many are
// waited for asleep before the next trial; each one that does halves it.
type pace struct{ rest, skip uint16 }

// mostRest makes a trial so rare that it costs less than a microsecond for each request.
const mostRest = 256

func (p *pace) ready() bool {
	if p.skip > 0 {
		p.skip--
		return false
	}
	return true
}

func (p *pace) soon() { p.rest /= 2 }

func (p *pace) late() {
	p.rest = min(max(2*p.rest, 1), mostRest)
	p.skip = p.rest
}
