package exchange

import "time"

// enterAlone reports whether a request may use the connection for lone requests, and if so counts the request as open.
// It may if no other request is in progress and the connection has not just failed.
func (l *Batcher) enterAlone() bool {
	if l.Solo == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 || time.Now().Before(l.soloRetryAt) {
		return false
	}
	l.open++
	return true
}

// soloRetryAfter is how long lone requests avoid their connection after it has failed, because another dial may hang.
const soloRetryAfter = 2 * time.Second

func (l *Batcher) leaveAlone(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.soloRetryAt = time.Time{}
	if err != nil && !IsReply(err) {
		l.soloRetryAt = time.Now().Add(soloRetryAfter)
	}
}
