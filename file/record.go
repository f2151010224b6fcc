package file

import (
	"encoding/binary"
	"errors"

	"github.com/anylock/lock/backend"
)

// A bootID identifies one boot of the machine.
type bootID [16]byte

// A record is the state of one key. Times are those of the host's monotonic clock in nanoseconds.
type record struct {
	last    uint64  // the highest token of the bucket; stored there, not in the record
	leases  []lease // one exclusive lease, or any number of shared ones
	claimBy int64   // until when a free key is reserved for the first waiter; 0 if no waiter has been notified
	queue   []queued
}

// A lease of a key.
type lease struct {
	owner   string
	token   uint64 // 0 if the lease is a reservation: see offer
	expires int64
	shared  bool
}

// A queued waiter.
type queued struct {
	owner  string
	inbox  uint64 // where the waiter is notified
	ticket uint64 // what the notification contains
	shared bool
}

var errFormat = errors.New("malformed bucket")

// size estimates the length of the encoded record, in bytes.
func (r *record) size() int {
	size := 16 + len(r.queue)*96
	for i := range r.leases {
		size += 24 + len(r.leases[i].owner)
	}
	return size
}

// append encodes the record: the head, the leases, claimBy if the key is free, and the queue. The head is 0 for a free
// key, 1 for an exclusive lease, and 1 more than the number of shared leases.
func (r *record) append(b []byte) []byte {
	head := uint64(len(r.leases))
	if r.readers() > 0 {
		head++
	}
	b = binary.AppendUvarint(b, head)
	for _, l := range r.leases {
		b = appendString(b, l.owner)
		b = binary.AppendUvarint(b, l.token)
		b = binary.AppendVarint(b, l.expires)
	}
	if head == 0 {
		b = binary.AppendVarint(b, r.claimBy)
	}
	b = binary.AppendUvarint(b, uint64(len(r.queue)))
	for _, q := range r.queue {
		b = appendString(b, q.owner)
		b = binary.LittleEndian.AppendUint64(b, q.inbox)
		b = binary.AppendUvarint(b, q.ticket)
		b = append(b, mode(q.shared))
	}
	return b
}

func mode(shared bool) byte {
	if shared {
		return 1
	}
	return 0
}

func decodeRecord(b []byte) (r record, err error) {
	d := &decoder{b: b}
	head := d.uvarint()
	shared := head > 1
	if shared {
		head--
	}
	r.leases = makeList[lease](d, head, 1+1+1)
	for i := range r.leases {
		r.leases[i] = lease{d.owner(), d.uvarint(), d.varint(), shared}
	}
	if head == 0 {
		r.claimBy = d.varint()
	}
	r.queue = makeList[queued](d, d.uvarint(), 1+8+1+1)
	for i := range r.queue {
		r.queue[i] = queued{d.owner(), d.fixed(), d.uvarint(), d.take(1)[0] != 0}
	}
	return r, d.end()
}

// makeList returns n zero values, nil if n is 0. least is the smallest encoding of one value, in bytes.
func makeList[T any](d *decoder, n uint64, least int) []T {
	if d.bad = d.bad || n > uint64(len(d.b)/least); d.bad || n == 0 {
		return nil
	}
	return make([]T, n)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A decoder reads fields one by one. After the first that is malformed, all are zero and end reports it.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return make([]byte, min(max(n, 0), 16))
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) boot() bootID  { return bootID(d.take(16)) }
func (d *decoder) fixed() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *decoder) uvarint() uint64 { return number(d, binary.Uvarint) }
func (d *decoder) varint() int64   { return number(d, binary.Varint) }

func number[T int64 | uint64](d *decoder, read func([]byte) (T, int)) T {
	v, n := read(d.b)
	d.take(max(n, 0))
	d.bad = d.bad || n <= 0
	if d.bad {
		return 0
	}
	return v
}

func (d *decoder) owner() string {
	n := d.uvarint()
	if n == 0 || n > backend.MaxOwnerLen {
		d.bad = true
		return ""
	}
	p := d.take(int(n))
	if d.bad {
		return ""
	}
	return string(p)
}

func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return errFormat
	}
	return nil
}
