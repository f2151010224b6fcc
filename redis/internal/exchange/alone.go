package exchange

import "time"

// beginSolo reports whether a request may use the connection for lone requests, and if so counts it as active.
// It may if no other request is in progress and the connection has not just failed.
func (l *Batcher) beginSolo() bool {
	if l.Solo == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active > 0 || time.Now().Before(l.soloRetryAt) {
		return false
	}
	l.active++
	return true
}

// soloRetryAfter is how long lone requests avoid their connection after it has failed, because another dial may hang.
const soloRetryAfter = 2 * time.Second

// endSolo records the end of a request on the connection for lone requests.
func (l *Batcher) endSolo(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	l.soloRetryAt = time.Time{}
	if err != nil && !IsReply(err) {
		l.soloRetryAt = time.Now().Add(soloRetryAfter)
	}
}
