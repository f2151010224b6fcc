package redlock

// token returns the fencing token of an owner that has been elected, and whether a quorum has stored it.
//
// Each elector has stored its own number for the key, greater than its earlier numbers; usually it is the number that
// the owner proposed. The token is the greatest of these numbers. A quorum must store the token before the owner gets
// it. Then every later election has an elector that knows the token, and returns a greater number. docs/redlock.md has
// the proof.
func (e *election) token() (token uint64, stored bool) {
	electors := e.electors()
	for _, i := range electors {
		token = max(token, e.votes[i].token)
	}
	n := 0
	for _, i := range electors {
		if e.votes[i].token == token {
			n++
		}
	}
	return token, n >= e.t.quorum
}
