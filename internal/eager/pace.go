package eager

// A pace decides whether to poll for a reply. While replies arrive soon, every reply is polled for. Each reply that is
// late in a trial doubles the number of replies without polling before the next trial. Each reply that is soon halves
// it.
type pace struct{ rest, skip uint16 }

// mostRest makes trials so rare that they cost less than a microsecond per request.
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
