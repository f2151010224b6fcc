package conformance_test

import "github.com/anylock/lock/conformance"

// memberMutants are bugs of clusters that forget waiters, readers or timers when a member fails.
var memberMutants = []mutant{
	{"a member's end takes the timers of dead holders along", "StoppedMemberLosesNothing"},
	{"a member's end takes readers along", "StoppedMemberLosesNothing"},
	{"a member's end takes all waiters but the first along", "StoppedMemberLosesNothing"},
	{"a frozen member takes the timers of dead holders along", "FrozenMemberLosesNothing"},
	{"an empty member knows of no readers", "EmptiedMemberLosesNothing"},
}

// losesWith applies the bugs of the end of a member to the returned member.
func (s *server) losesWith(m conformance.Member) conformance.Member {
	after := func(f func(), lose func(key string, e *entry), bug string) func() {
		if !s.is(bug) {
			return f
		}
		return func() {
			f()
			s.mu.Lock()
			defer s.mu.Unlock()
			for key, e := range s.keys {
				lose(key, e)
			}
		}
	}
	timers := func(_ string, e *entry) {
		if e.timer != nil {
			e.timer.Stop()
		}
	}
	m.Stop = after(m.Stop, timers, "a member's end takes the timers of dead holders along")
	m.Stop = after(m.Stop, s.removeReaders, "a member's end takes readers along")
	m.Stop = after(m.Stop, func(_ string, e *entry) { e.queue = e.queue[:min(1, len(e.queue))] },
		"a member's end takes all waiters but the first along")
	m.Freeze = after(m.Freeze, timers, "a frozen member takes the timers of dead holders along")
	m.StartEmpty = after(m.StartEmpty, s.removeReaders, "an empty member knows of no readers")
	return m
}
