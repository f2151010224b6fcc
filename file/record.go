package file

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// A bootID identifies one boot of the machine. Its last bit is set in a container that has a boot id of its own.
type bootID [16]byte

func newBootID(name string, own bool) (id bootID) {
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	id[len(id)-1] &^= 1
	if own {
		id[len(id)-1] |= 1
	}
	return id
}

func (id bootID) isOwn() bool { return id[len(id)-1]&1 != 0 }

// A record is the state of one key. Times are those of the host's monotonic clock in nanoseconds.
type record struct {
	last    uint64  // the highest token of the bucket; stored there, not in the record
	leases  []lease // one exclusive lease, or any number of shared ones
	claimBy int64   // until when a free key is reserved for the first waiter; 0 if no waiter has been notified
	queue   []queued
}

// A lease is a lease of a key, or a reservation for one.
type lease struct {
	owner   string
	token   uint64 // 0 if the lease is a reservation: see offer
	expires int64
	shared  bool
}

// A queued is a waiter in the queue.
type queued struct {
	owner  string
	inbox  uint64 // where the waiter is notified
	ticket uint64 // what the notification contains
	shared bool
}

var errFormat = errors.New("malformed bucket")

// append appends the encoded record to b.
func (r *record) append(b []byte) []byte {
	b = appendUint(b, uint64(r.claimBy))
	b = appendUint(b, uint64(len(r.leases)))
	for _, l := range r.leases {
		b = appendParty(b, l.owner, l.token, uint64(l.expires), l.shared)
	}
	for _, q := range r.queue {
		b = appendParty(b, q.owner, q.inbox, q.ticket, q.shared)
	}
	return b
}

func decodeRecord(b []byte) (r record, err error) {
	d := &decoder{b: b}
	r.claimBy = int64(d.uint())
	for n := d.uint(); n > 0 && !d.bad; n-- {
		owner, token, expires, shared := d.party()
		r.leases = append(r.leases, lease{owner, token, int64(expires), shared})
	}
	for len(d.b) > 0 {
		owner, inbox, ticket, shared := d.party()
		r.queue = append(r.queue, queued{owner, inbox, ticket, shared})
	}
	return r, d.err()
}

func appendUint(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

func appendBytes(b, p []byte) []byte { return append(appendUint(b, uint64(len(p))), p...) }

// appendParty encodes a lease or a waiter.
func appendParty(b []byte, owner string, x, y uint64, shared bool) []byte {
	b = append(append(b, byte(len(owner))), owner...) // at most backend.MaxOwnerLen, which is 255
	b = appendUint(appendUint(b, x), y)
	if shared {
		return append(b, 1)
	}
	return append(b, 0)
}

// A decoder reads fields one by one. After the first malformed field, no input remains, and err returns errFormat.
type decoder struct {
	b   []byte
	bad bool
}

// next returns the next n bytes, or nil if fewer remain.
func (d *decoder) next(n uint64) (p []byte) {
	if d.bad = d.bad || n > uint64(len(d.b)); d.bad {
		d.b = nil
		return nil
	}
	p, d.b = d.b[:n], d.b[n:]
	return p
}

func (d *decoder) byte() byte {
	if p := d.next(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) uint() uint64 {
	if p := d.next(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (d *decoder) bytes() []byte { return d.next(d.uint()) }

func (d *decoder) party() (owner string, x, y uint64, shared bool) {
	return string(d.next(uint64(d.byte()))), d.uint(), d.uint(), d.byte() != 0
}

func (d *decoder) err() error {
	if d.bad {
		return errFormat
	}
	return nil
}
