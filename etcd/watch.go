package etcd

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend/kit"
)

// openLimit is how long a stream may take to open.
const openLimit = 4 * time.Second

// watches report deletions of keys, and some of them writes, all on one stream.
//
// A watch begins at the server's present revision, never at an older one, because servers serve older watches in a loop
// that runs every 100 ms. The reply to the creation of a watch contains that revision, so the watch's owner can check
// whether the key was deleted earlier. When the stream breaks, or the server cancels a watch, all watches begin again
// on another stream, and their owners must check again. Servers have lost events (etcd issues 17612, 18089, 19179), so
// waiters also read the queue periodically.
type watches struct {
	b      *Backend
	client pb.WatchClient

	mu      sync.Mutex
	list    map[int64]*watch
	lastID  int64
	current *watchStream
	started bool
}

// firstID is greater than any number that a server or proxy chooses for a watch.
const firstID = 1 << 32

// A watch watches one contender. created and deleted are called on the stream's goroutine, and must not block.
type watch struct {
	contender contender
	id        int64
	// created is called when the watch has begun: it reports only deletions after the revision from. from is 0 if the
	// revision is unknown, or if the stream broke and nothing is reported.
	created func(from int64)
	written func(at int64) // nil if writes are not watched; at is the revision of the write
	deleted func(at int64) // called at most once, never by stop; at is the revision of the deletion

	stopped  bool
	remoteID int64 // its number on the current stream
}

func newWatches(b *Backend, client pb.WatchClient) *watches {
	return &watches{b: b, client: client, list: make(map[int64]*watch), lastID: firstID}
}

// add starts w, and returns it.
func (ws *watches) add(w *watch) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.lastID++
	w.id = ws.lastID
	ws.list[w.id] = w
	if !ws.started {
		ws.started = ws.b.leases.Go(ws.run)
	}
	if ws.current != nil {
		ws.current.createLocked(w)
	}
	return w
}

// stop ends a watch, and reports whether the watch was active. A watch is inactive once its key is deleted.
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

// run keeps a stream open from the first watch until Close.
func (ws *watches) run(context.Context) {
	closing := ws.b.leases.Closing()
	pause := kit.Pause{Min: leastPause, Max: time.Second}
	for closing.Err() == nil {
		begun := time.Now()
		ws.serve(closing)
		if time.Since(begun) > mostPause {
			pause.Reset()
		}
		_ = kit.Sleep(closing, pause.Next(0))
	}
}

// serve opens a stream, creates all watches, and handles replies until the stream breaks.
func (ws *watches) serve(closing context.Context) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(closing))
	defer cancel()
	opened := time.AfterFunc(openLimit, cancel)
	stream, err := ws.client.Watch(ctx)
	if !opened.Stop() || err != nil {
		return
	}
	s := newWatchStream(ws.b, stream, cancel)
	ws.useStream(s)
	for {
		resp, err := stream.Recv()
		if err != nil {
			break
		}
		ws.handle(s, resp)
	}
	for _, w := range ws.useStream(nil) {
		w.created(0)
	}
}

// useStream makes s the stream of all watches, or nil for no stream. It returns the watches.
func (ws *watches) useStream(s *watchStream) []*watch {
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
	ws.mu.Lock()
	w := s.watchForLocked(resp)
	ws.mu.Unlock()
	switch {
	case resp.Canceled && (w != nil || resp.Created):
		// Newer servers do not identify the watch that they refuse. The token of the stream's log-in may have expired: a new
		// stream logs in again.
		s.cancel()
	case resp.Created && !s.oneByOne && resp.WatchId < firstID:
		ws.b.proxied.Store(true) // only a proxy ignores the number that the client has chosen
		s.cancel()
	case w == nil: // the watch was stopped
	case resp.Created:
		w.created(resp.Header.GetRevision())
	default:
		ws.report(w, resp.Events)
	}
}

// report calls the functions of w for the events that are about its contender. A member that lags behind also reports
// deletions of earlier contenders with the same name.
func (ws *watches) report(w *watch, events []*mvccpb.Event) {
	for _, e := range events {
		switch at := e.Kv.ModRevision; {
		case e.Type == mvccpb.PUT && w.written != nil && e.Kv.CreateRevision == w.contender.created:
			w.written(at)
		case e.Type == mvccpb.DELETE && at > w.contender.created && ws.stop(w):
			w.deleted(at)
		}
	}
}

// A watchStream creates watches on one stream, and matches replies to watches.
//
// Servers use the numbers that the client chooses for the watches of a stream. "etcd grpc-proxy" chooses the numbers
// itself, and creates the watches in any order. So on a stream through a proxy, each watch is created after the reply to
// the previous one.
//
// watches.mu guards all fields but unsent.
type watchStream struct {
	stream pb.Watch_WatchClient
	cancel context.CancelFunc
	// Messages are sent in the background, because Send may block: a server whose replies nobody reads accepts no more
	// messages. The goroutine that reads replies and reports losses must not wait for that.
	unsent backlog[*pb.WatchRequest]

	oneByOne bool             // through a proxy
	creating *watch           // oneByOne: the watch whose creation awaits a reply
	pending  []*watch         // oneByOne: the watches to create after it
	numbered map[int64]*watch // the active watches by their numbers on this stream
}

func newWatchStream(b *Backend, stream pb.Watch_WatchClient, cancel context.CancelFunc) *watchStream {
	s := &watchStream{stream: stream, cancel: cancel, oneByOne: b.proxied.Load(), numbered: make(map[int64]*watch)}
	s.unsent = backlog[*pb.WatchRequest]{leases: b.leases, process: s.send}
	return s
}

func (s *watchStream) send(list []*pb.WatchRequest) {
	for _, r := range list {
		if s.stream.Send(r) != nil {
			return // Recv returns the reason
		}
	}
}

// createLocked creates a watch, at once or, if oneByOne, after those before it.
func (s *watchStream) createLocked(w *watch) {
	if s.oneByOne {
		s.pending = append(s.pending, w)
		s.createNextLocked()
		return
	}
	s.numberLocked(w, w.id)
	s.unsent.add(w.request(nil))
}

func (s *watchStream) createNextLocked() {
	for len(s.pending) > 0 && s.creating == nil {
		w := s.pending[0]
		s.pending = s.pending[1:]
		if !w.stopped {
			s.creating = w
			// A proxy merges watches on the same range. This range contains only the key, and no other watch has the same range.
			s.unsent.add(w.request([]byte(w.contender.key + "\x00" + strconv.FormatUint(rand.Uint64(), 36))))
		}
	}
}

func (s *watchStream) numberLocked(w *watch, number int64) {
	w.remoteID = number
	s.numbered[number] = w
}

// watchForLocked returns the watch that a reply is for. It returns nil if the watch was stopped, or if a refusal does
// not identify its watch.
func (s *watchStream) watchForLocked(resp *pb.WatchResponse) *watch {
	if !s.oneByOne || !resp.Created || resp.Canceled {
		return s.numbered[resp.WatchId]
	}
	w := s.creating
	s.creating = nil
	s.createNextLocked()
	if w == nil || w.stopped {
		s.unsent.add(cancelRequest(resp.WatchId))
		return nil
	}
	s.numberLocked(w, resp.WatchId)
	return w
}

// stopLocked cancels a watch that was just marked as stopped.
func (s *watchStream) stopLocked(w *watch) {
	if s.numbered[w.remoteID] == w {
		delete(s.numbered, w.remoteID)
		s.unsent.add(cancelRequest(w.remoteID))
	}
}

func (w *watch) request(rangeEnd []byte) *pb.WatchRequest {
	r := &pb.WatchCreateRequest{Key: []byte(w.contender.key), RangeEnd: rangeEnd, WatchId: w.id}
	if w.written == nil {
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

func cancelRequest(number int64) *pb.WatchRequest {
	return &pb.WatchRequest{
		RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: number}},
	}
}
