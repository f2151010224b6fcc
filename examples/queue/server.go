package queue

import (
	"encoding/json"
	"net"
	"slices"
	"sync"
	"time"
)

// A request is a line of JSON to the server. Keys and owners are any bytes.
type request struct {
	ID         uint64
	Op         string // take, renew, release, break, look, or step, which tests need
	Key, Owner []byte
	TTL        time.Duration
	Wait       bool // take: in the queue
}

// An answer is a line of JSON from the server. Without an ID it is no answer, but tells an owner that waits that its turn has come.
type answer struct {
	ID      uint64
	Owner   []byte `json:",omitempty"`
	Done    bool   // take: the owner holds the key now; else: there was a lease, or a place in the queue
	Spent   bool   // take: the owner has given up before, and gets nothing any more
	Holder  []byte `json:",omitempty"`
	Token   uint64
	Left    time.Duration
	Waiters int
}

// A Server keeps locks in memory, for clients in a network. A lease ends by the server's monotonic clock.
type Server struct {
	mu    sync.Mutex
	locks map[string]*lock     // those that are held
	spent map[string]time.Time // owners that have released, and when
	token uint64               // the last one
	step  time.Duration        // of the wall clock, by a test
}

// A lock is a key that is held, and who waits for it.
type lock struct {
	place
	token   uint64
	expires time.Time
	timer   *time.Timer
	queue   []place
}

// A place is an owner's, in a queue or as the holder.
type place struct {
	owner string
	ttl   time.Duration
	conn  *serverConn
}

// NewServer returns a server without locks.
func NewServer() *Server {
	return &Server{locks: make(map[string]*lock), spent: make(map[string]time.Time)}
}

// Serve answers on every connection that l accepts, until l fails.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go s.serve(conn)
	}
}

// A serverConn is a client, as the server sees it.
type serverConn struct {
	net.Conn
	out chan answer
}

// send never waits: a client that does not read is cut off.
func (c *serverConn) send(a answer) {
	select {
	case c.out <- a:
	default:
		c.Close()
	}
}

func (s *Server) serve(conn net.Conn) {
	const unread = 4096 // answers that a client need not have read
	c := &serverConn{conn, make(chan answer, unread)}
	ended := make(chan struct{})
	go func() {
		for lines := json.NewEncoder(conn); ; {
			select {
			case a := <-c.out:
				if lines.Encode(a) != nil {
					conn.Close()
				}
			case <-ended:
				return
			}
		}
	}()
	for lines := json.NewDecoder(conn); ; {
		var r request
		if lines.Decode(&r) != nil {
			break
		}
		c.send(s.do(c, r))
	}
	conn.Close()
	close(ended)
	s.left(c)
}

// left takes the waiters of a client away whose connection has ended. If it lives, they come again.
func (s *Server) left(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.locks {
		l.queue = slices.DeleteFunc(l.queue, func(p place) bool { return p.conn == c })
	}
}

// do executes one request atomically. It reads the clock when it has the server for itself.
func (s *Server) do(c *serverConn, r request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, p := string(r.Key), place{string(r.Owner), r.TTL, c}
	s.expire(key)
	a := answer{ID: r.ID}
	switch l := s.locks[key]; r.Op {
	case "take":
		if _, a.Spent = s.spent[p.owner]; !a.Spent {
			a.Done = s.take(key, p, r.Wait)
		}
	case "renew":
		if a.Done = l != nil && l.owner == p.owner; a.Done {
			s.prolong(l, p.ttl)
		}
	case "release":
		s.spend(p.owner)
		a.Done = l != nil && s.leave(l, p.owner) || s.end(key, p.owner)
	case "break":
		a.Done = s.end(key, p.owner)
	case "step":
		s.step += r.TTL
	}
	if l := s.locks[key]; l != nil {
		a.Holder, a.Token, a.Left, a.Waiters = []byte(l.owner), l.token, time.Until(l.expires), len(l.queue)
	}
	return a
}

// take gives a free key to p, and reports whether p holds it. One who holds it already, because its turn has come or an answer was lost,
// keeps the token, and has the whole TTL again. Others take a place at the end of the queue, if they wait, or keep the place they have.
func (s *Server) take(key string, p place, wait bool) bool {
	l := s.locks[key]
	switch {
	case l == nil:
		l = &lock{timer: time.AfterFunc(p.ttl, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.expire(key)
		})}
		s.locks[key] = l
		s.grant(l, p)
	case l.owner == p.owner && time.Until(l.expires) < p.ttl: // not after a renewal for longer: it may come late
		s.prolong(l, p.ttl)
	case l.owner == p.owner:
	case wait:
		if i := slices.IndexFunc(l.queue, func(q place) bool { return q.owner == p.owner }); i >= 0 {
			l.queue[i] = p // by another connection, perhaps
		} else {
			l.queue = append(l.queue, p)
		}
		return false
	default:
		return false
	}
	return true
}

// grant makes p the holder, with the next token. Never below the time, tokens rise over a restart of the server too.
func (s *Server) grant(l *lock, p place) {
	s.token = max(s.token+1, uint64(time.Now().Add(s.step).UnixMicro()))
	l.place, l.token = p, s.token
	s.prolong(l, p.ttl)
}

func (s *Server) prolong(l *lock, ttl time.Duration) {
	l.expires = time.Now().Add(ttl)
	l.timer.Reset(ttl)
}

// expire ends the lease on key if it is over.
func (s *Server) expire(key string) {
	if l := s.locks[key]; l != nil && !time.Now().Before(l.expires) {
		s.end(key, l.owner)
	}
}

// end ends the lease of owner on key, if there is one. The first in the queue has the key then, and is told so.
func (s *Server) end(key, owner string) bool {
	l := s.locks[key]
	if l == nil || l.owner != owner {
		return false
	}
	if len(l.queue) == 0 {
		l.timer.Stop()
		delete(s.locks, key)
		return true
	}
	next := l.queue[0]
	l.queue = l.queue[1:]
	s.grant(l, next)
	next.conn.send(answer{Owner: []byte(next.owner)})
	return true
}

// leave gives up owner's place in the queue, if it has one.
func (s *Server) leave(l *lock, owner string) bool {
	before := len(l.queue)
	l.queue = slices.DeleteFunc(l.queue, func(p place) bool { return p.owner == owner })
	return len(l.queue) < before
}

// spend notes that owner has released, or given up: its take may still be on its way, by a connection that was cut, and must get nothing.
func (s *Server) spend(owner string) {
	const travels = time.Minute // at most
	now := time.Now()
	s.spent[owner] = now
	time.AfterFunc(travels, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.spent[owner].Equal(now) {
			delete(s.spent, owner)
		}
	})
}
