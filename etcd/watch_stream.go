package etcd

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/anylock/lock/internal/calls"
)

// A watchStream creates watches on one stream, and finds out which watch a response is for.
//
// Servers number the watches of a stream as the client asks. "etcd grpc-proxy" numbers them itself, creates them in any
// order, and does not answer requests for progress. So the first watch of a stream is created alone: its number shows
// who chooses the numbers. If the client does, all others are created at once. Otherwise each watch is created after
// the reply to the one before.
//
// The lock of watches guards all fields but unsent and heard.
type watchStream struct {
	stream pb.Watch_WatchClient
	cancel context.CancelFunc
	// What is to be sent, while others receive: a server whose answers nobody takes reads no more. A stream may take
	// nothing for seconds, and nobody must wait for that: one goroutine reports the losses of all leases.
	unsent backlog[*pb.WatchRequest]
	heard  atomic.Bool // since the last look

	numbers  numbering
	creating *watch           // the one whose reply is awaited, if only one may be; else nil
	pending  []*watch         // to be created after it
	created  map[int64]*watch // by their numbers on this stream, without stopped ones
}

// numbering is who numbers the watches of a stream.
type numbering int

const (
	unknownNumbers numbering = iota
	clientNumbers
	remoteNumbers // by a proxy
)

func newWatchStream(stream pb.Watch_WatchClient, cancel context.CancelFunc, calls *calls.Calls) *watchStream {
	s := &watchStream{stream: stream, cancel: cancel, created: make(map[int64]*watch)}
	s.unsent = backlog[*pb.WatchRequest]{calls: calls, work: s.send}
	return s
}

func (s *watchStream) send(list []*pb.WatchRequest) {
	for _, r := range list {
		if s.stream.Send(r) != nil {
			return // Recv gets the reason
		}
	}
}

// createLocked asks for a watch, now or in its turn.
func (s *watchStream) createLocked(w *watch) {
	s.pending = append(s.pending, w)
	s.createPendingLocked()
}

func (s *watchStream) createPendingLocked() {
	for len(s.pending) > 0 && (s.numbers == clientNumbers || s.creating == nil) {
		w := s.pending[0]
		s.pending = s.pending[1:]
		if w.stopped {
			continue
		}
		if s.numbers != clientNumbers {
			s.creating = w
		}
		s.unsent.add(w.request(s.numbers))
	}
}

// createdLocked records that the server has created a watch with a number: asked, if the client chooses the numbers. It
// returns the watch, nil if it was stopped.
func (s *watchStream) createdLocked(number int64, asked *watch) *watch {
	w := asked
	if s.numbers != clientNumbers {
		w = s.creating
		s.creating = nil
		if w != nil && s.numbers == unknownNumbers {
			s.numbers = remoteNumbers
			if number == w.id {
				s.numbers = clientNumbers
			}
		}
		if w != nil && w.stopped {
			s.unsent.add(cancelRequest(number))
		}
		s.createPendingLocked()
	}
	if w == nil || w.stopped {
		return nil
	}
	w.remoteID = number
	s.created[number] = w
	return w
}

// stopLocked ends a watch, which has just been marked as stopped.
func (s *watchStream) stopLocked(w *watch) {
	if s.created[w.remoteID] == w {
		delete(s.created, w.remoteID)
		s.unsent.add(cancelRequest(w.remoteID))
	} else if s.numbers == clientNumbers { // its reply is still to come
		s.unsent.add(cancelRequest(w.id))
	}
}

// probeLocked asks for a sign of life: a report of progress, or a watch on a key that nobody has, which a proxy passes
// on to its server.
func (s *watchStream) probeLocked(key string) {
	switch {
	case s.numbers == clientNumbers:
		s.unsent.add(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	case s.creating == nil: // else a reply is due anyway
		probe := &watch{of: contender{key: key}, id: firstID}
		s.createLocked(probe)
		probe.stopped = true // so that it is canceled with the reply
	}
}

func (w *watch) request(n numbering) *pb.WatchRequest {
	create := &pb.WatchCreateRequest{
		Key: []byte(w.of.key), WatchId: w.id, Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
	}
	if n != clientNumbers {
		// A proxy merges watches on the same range. This range has the same single key, and no other watch has this
		// range.
		create.RangeEnd = []byte(w.of.key + "\x00" + strconv.FormatUint(rand.Uint64(), 36))
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
}

func cancelRequest(number int64) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: number}}}
}
