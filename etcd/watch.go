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
	list    map[*watch]bool // the active watches
	current *watchStream
	started bool
}

// A watch watches one contender. created and deleted are called on the stream's goroutine, and must not block.
type watch struct {
	contender contender
	// created is called when the watch has begun: it reports only deletions after the revision from. from is 0 if the
	// revision is unknown, or if the stream broke and nothing is reported.
	created func(from int64)
	written func(at int64) // nil if writes do not matter; at is the revision of the write
	deleted func(at int64) // called at most once, never by stop; at is the revision of the deletion

	number int64 // on the current stream
}

func newWatches(b *Backend, client pb.WatchClient) *watches {
	return &watches{b: b, client: client, list: make(map[*watch]bool)}
}

// add starts w, and returns it.
func (ws *watches) add(w *watch) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.list[w] = true
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
	if !ws.list[w] {
		return false
	}
	delete(ws.list, w)
	if ws.current != nil {
		ws.current.cancelLocked(w)
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
	opened := time.AfterFunc(ws.b.options.Timeout, cancel)
	stream, err := ws.client.Watch(ctx)
	if !opened.Stop() || err != nil {
		return
	}
	s := &watchStream{stream: stream, proxied: ws.b.proxied.Load(), numbered: make(map[int64]*watch)}
	s.unsent = backlog[*pb.WatchRequest]{leases: ws.b.leases, process: s.send}
	ws.useStream(s)
	if s.proxied {
		ws.b.leases.Go(func(context.Context) { ws.b.keepBusy(ctx) })
	}
	for {
		resp, err := stream.Recv()
		if err != nil || !ws.handle(s, resp) {
			break
		}
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
	all := slices.Collect(maps.Keys(ws.list))
	if s != nil {
		for _, w := range all {
			s.createLocked(w)
		}
	}
	return all
}

// handle handles a reply. It returns false if all watches must begin again.
func (ws *watches) handle(s *watchStream, resp *pb.WatchResponse) bool {
	ws.mu.Lock()
	w := s.numbered[resp.WatchId]
	ws.mu.Unlock()
	switch {
	case resp.Canceled && (w != nil || resp.Created):
		// Newer servers do not identify the watch that they refuse. The token of the stream's log-in may have expired: a new
		// stream logs in again.
		return false
	case w == nil: // the watch was stopped
	case resp.Created:
		w.created(resp.Header.GetRevision())
	default:
		ws.report(w, resp.Events)
	}
	return true
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

// A watchStream creates watches on one stream, and numbers them from 0 in the order of their creation. A server uses
// these numbers. "etcd grpc-proxy" ignores them, but numbers the watches of a stream in the same way.
//
// watches.mu guards numbered and next.
type watchStream struct {
	stream pb.Watch_WatchClient
	// Messages are sent in the background, because Send may block: a server whose replies nobody reads accepts no more
	// messages. The goroutine that reads replies and reports losses must not wait for that.
	unsent  backlog[*pb.WatchRequest]
	proxied bool

	numbered map[int64]*watch // the active watches
	next     int64            // the number of the next watch
}

func (s *watchStream) send(list []*pb.WatchRequest) {
	for _, r := range list {
		if s.stream.Send(r) != nil {
			return // Recv returns the reason
		}
	}
}

func (s *watchStream) createLocked(w *watch) {
	w.number = s.next
	s.next++
	s.numbered[w.number] = w
	r := &pb.WatchCreateRequest{Key: []byte(w.contender.key), WatchId: w.number}
	if s.proxied {
		// A proxy merges watches on the same range. This range contains only the key, and no other watch has the same range.
		r.RangeEnd = []byte(w.contender.key + "\x00" + strconv.FormatUint(rand.Uint64(), 36))
	}
	s.unsent.add(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
}

func (s *watchStream) cancelLocked(w *watch) {
	delete(s.numbered, w.number)
	s.unsent.add(&pb.WatchRequest{
		RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: w.number}},
	})
}
