package zookeeper

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A key that nobody uses has no container: the servers remove empty ones. It is made by the write that makes the first
// node in it. The library knows no containers in such a write, so its frames are changed on their way: what it takes for
// the create of a plain node is sent as the create of a container, and answered as the former.

// createBoth creates dir, a container, and a sequential ephemeral node in it, by one write. A dir that is there already
// is zk.ErrNodeExists, and changes nothing.
func createBoth(c *zk.Conn, dir, path string, data []byte, acl []zk.ACL) (string, error) {
	r, err := c.Multi(
		&zk.CreateRequest{Path: dir, Acl: acl, Flags: zk.FlagContainer},
		&zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: zk.FlagEphemeralSequential},
	)
	if err != nil {
		return "", err
	}
	if len(r) != 2 {
		return "", fmt.Errorf("zookeeper answered %d creates of 2: %w", len(r), zk.ErrConnectionClosed)
	}
	return r[1].String, nil
}

// Where the parts of a frame begin that is one write of many.
const (
	multiRequestAt = 4 + 4 + 4 // behind length, xid and kind
	multiReplyAt   = 4 + 8 + 4 // behind xid, zxid and error
	multiBodyAt    = 4 + 1 + 4 // behind the kind, whether it is the last, an error
	statSize       = 6*8 + 5*4 // of a node's data about itself
)

// asContainer changes the request of createBoth, the only one of many writes that begins with a create. ok is false for
// every other request. The node is nil if its attempt has given up.
func (w *wire) asContainer(p []byte) (n *node, ok bool) {
	if len(p) < multiRequestAt+multiBodyAt || int32(be.Uint32(p[multiRequestAt:])) != opCreate {
		return nil, false
	}
	be.PutUint32(p[multiRequestAt:], opContainer)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for path, n := range w.s.pending { // few; no other request has the path
		if bytes.Contains(p, []byte(path)) {
			return n, true
		}
	}
	return nil, true
}

// asCreated changes the answer to createBoth to one that the library understands: without the data about the container.
// made is false if the answer is that nothing was made. An answer of no known form is an error.
func asCreated(p []byte) (answer []byte, made bool, err error) {
	const size = 4
	if len(p) < multiReplyAt+multiBodyAt {
		return nil, false, errFrame
	}
	body := p[multiReplyAt:]
	switch int32(be.Uint32(body)) {
	case opError:
		return p, false, nil
	case opCreate:
		return p, true, nil
	case opCreate2:
		path := framePath(body[multiBodyAt:])
		end := multiBodyAt + size + len(path)
		if path == "" || len(body) < end+statSize {
			return nil, false, errFrame
		}
		be.PutUint32(body, opCreate)
		return p[:multiReplyAt+end+copy(body[end:], body[end+statSize:])], true, nil
	}
	return nil, false, errFrame
}

// dirs remembers which keys have a container, as far as this client has seen lately. What it says may be outdated, which
// costs an attempt.
type dirs struct {
	mu     sync.Mutex
	known  map[string]bool // whether it is there
	absent bool            // the last one that was not known turned out to be missing
}

const mostDirs = 4096

// isMissing reports whether dir has to be made, as it seems.
func (d *dirs) isMissing(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	there, known := d.known[dir]
	return known && !there || !known && d.absent
}

// found notes that dir is there now. made tells that it was missing before.
func (d *dirs) found(dir string, made bool) { d.note(dir, true, made) }

// missed notes that dir is missing.
func (d *dirs) missed(dir string) { d.note(dir, false, true) }

func (d *dirs) note(dir string, there, absent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.known[dir]; !known {
		d.absent = absent
	}
	if d.known == nil || len(d.known) >= mostDirs {
		d.known = make(map[string]bool)
	}
	d.known[dir] = there
}
