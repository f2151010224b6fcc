package etcd

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
)

const (
	// silence is how long a stream with watches may be silent before the server is asked for a sign of life, and again
	// until the stream is given up.
	silence = 1500 * time.Millisecond
	// opening bounds how long a stream may take to open.
	opening = 4 * time.Second
)

// watches tells of keys that are deleted, all on one stream.
//
// A watch begins at the server's present revision, never at an older one: those are served by a loop that runs every
// 100 ms. Its creation tells that revision, so that its owner can look whether the key was deleted before. When the stream
// breaks, or the server cancels a watch, all begin anew on another stream, and their owners are to look again. Events have
// been lost (etcd issues 17612, 18089, 19179), so a waiter looks now and then in any case.
type watches struct {
	client pb.WatchClient
	calls  *calls.Calls
	probed string // the key of watches that only ask for a sign of life

	mu      sync.Mutex
	list    map[int64]*watch
	lastID  int64
	current *watchStream
	started bool
	closing context.Context
	running sync.WaitGroup
}

// firstID is above every number that a server or proxy chooses for a watch.
const firstID = 1 << 32

// A watch is for one contender.
type watch struct {
	of   contender
	id   int64
	look func(from int64) // only deletions after the revision from are told from now on; 0 where it is not known, or none are
	gone func(at int64)   // called once at most, never by stop; at is when the key was deleted

	stopped  bool
	remoteID int64 // its number on the current stream, once created there
}

func newWatches(client pb.WatchClient, closing context.Context, calls *calls.Calls, probed string) *watches {
	return &watches{client: client, calls: calls, probed: probed, list: make(map[int64]*watch), lastID: firstID, closing: closing}
}

// add begins a watch. look and gone are called on a goroutine of the stream's and must not block.
func (ws *watches) add(of contender, look, gone func(revision int64)) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.lastID++
	w := &watch{of: of, id: ws.lastID, look: look, gone: gone}
	ws.list[w.id] = w
	if !ws.started && ws.closing.Err() == nil {
		ws.started = true
		ws.running.Go(ws.run)
	}
	if ws.current != nil {
		ws.current.createLocked(w)
	}
	return w
}

// stop ends a watch, and reports whether it was there: not one whose key is gone.
func (ws *watches) stop(w *watch) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.list[w.id] == nil {
		return false
	}
	delete(ws.list, w.id)
	w.stopped = true
	if ws.current != nil {
		ws.current.stopLocked(w)
	}
	return true
}

// run keeps a stream open, once the first watch has been added, until closing.
func (ws *watches) run() {
	pause := kit.Pause{Min: leastPause, Max: time.Second}
	for ws.closing.Err() == nil {
		begun := time.Now()
		ws.serve()
		if time.Since(begun) > mostPause {
			pause.Reset()
		}
		_ = kit.Sleep(ws.closing, pause.Next(0))
	}
}

// serve opens a stream, creates the watches there are, and tells of what comes until the stream breaks.
func (ws *watches) serve() {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ws.closing))
	defer cancel()
	opened := time.AfterFunc(opening, cancel)
	stream, err := ws.client.Watch(ctx)
	if !opened.Stop() || err != nil {
		return
	}
	s := newWatchStream(stream, cancel, ws.calls)
	ws.turnTo(s)
	listening := make(chan struct{})
	ws.running.Go(func() { ws.listen(s, listening) })
	for {
		resp, err := stream.Recv()
		if err != nil {
			break
		}
		s.heard.Store(true)
		ws.handle(s, resp)
	}
	close(listening)
	for _, w := range ws.turnTo(nil) {
		w.look(0)
	}
}

// turnTo makes s the stream of all watches, nil for none, and returns these.
func (ws *watches) turnTo(s *watchStream) []*watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.current = s
	all := slices.Collect(maps.Values(ws.list))
	if s != nil {
		for _, w := range all {
			s.createLocked(w)
		}
	}
	return all
}

func (ws *watches) handle(s *watchStream, resp *pb.WatchResponse) {
	w := ws.of(s, resp)
	switch {
	case resp.Canceled && (w != nil || resp.Created):
		// Newer servers do not say which watch they refuse. The token of the stream's log-in may have run out: a new stream logs in
		// anew.
		s.cancel()
	case w == nil: // it was stopped
	case resp.Created:
		w.look(resp.Header.GetRevision())
	default: // only deletions are sent
		at := w.deleted(resp.Events)
		if at != 0 && ws.stop(w) {
			w.gone(at)
		}
	}
}

// of returns the watch that a response is for, nil if it was stopped or refused.
func (ws *watches) of(s *watchStream, resp *pb.WatchResponse) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case !resp.Created:
		return s.created[resp.WatchId]
	case resp.Canceled:
		return nil
	}
	return s.createdLocked(resp.WatchId, ws.list[resp.WatchId])
}

// deleted returns the revision at which the contender was deleted, 0 if that is not among the deletions of its key: a member that lags
// behind tells of those of earlier contenders, too.
func (w *watch) deleted(deletions []*mvccpb.Event) int64 {
	for _, e := range deletions {
		if e.Kv.ModRevision > w.of.rev {
			return e.Kv.ModRevision
		}
	}
	return 0
}

// listen gives a stream up that is silent although it was asked for a sign of life: its server hangs, or is cut off.
func (ws *watches) listen(s *watchStream, ended <-chan struct{}) {
	tick := time.NewTicker(silence)
	defer tick.Stop()
	for asked := false; ; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if s.heard.Swap(false) || ws.none() {
			asked = false
			continue
		}
		if asked {
			s.cancel()
			return
		}
		asked = true
		ws.mu.Lock()
		s.probeLocked(ws.probed)
		ws.mu.Unlock()
	}
}

func (ws *watches) none() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.list) == 0
}

// close waits for the end of the stream. closing must have ended.
func (ws *watches) close() {
	ws.mu.Lock()
	ws.started = true // a guard's timer, which nobody waits for, starts no stream any more
	ws.mu.Unlock()
	ws.running.Wait()
}
