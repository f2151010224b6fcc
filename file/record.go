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
	last    uint64 // the highest token of the bucket; not a part of what is written
	token   uint64 // of the lease
	owner   string // of the lease; empty while there is none
	expires int64  // end of the lease
	claimBy int64  // until when a free key is reserved for the first waiter; 0 if no waiter has been notified
	queue   []queued
}

// A queued waiter.
type queued struct {
	owner  string
	inbox  uint64 // where the waiter is notified
	ticket uint64 // what the notification contains
}

var errFormat = errors.New("malformed bucket")

func (r *record) size() int { return 64 + len(r.owner) + len(r.queue)*96 }

func (r *record) append(b []byte) []byte {
	b = binary.AppendUvarint(b, r.token)
	b = appendString(b, r.owner)
	b = binary.AppendVarint(b, r.expires)
	b = binary.AppendVarint(b, r.claimBy)
	b = binary.AppendUvarint(b, uint64(len(r.queue)))
	for _, q := range r.queue {
		b = appendString(b, q.owner)
		b = binary.LittleEndian.AppendUint64(b, q.inbox)
		b = binary.LittleEndian.AppendUint64(b, q.ticket)
	}
	return b
}

func decodeRecord(b []byte) (record, error) {
	d := &decoder{b: b}
	r := record{token: d.uvarint(), owner: d.string(), expires: d.varint(), claimBy: d.varint()}
	const least = 1 + 8 + 8 // bytes of a queued waiter
	n := d.uvarint()
	if n > uint64(len(d.b)/least) {
		return record{}, errFormat
	}
	if n > 0 {
		r.queue = make([]queued, n)
	}
	for i := range r.queue {
		r.queue[i] = queued{d.string(), d.fixed(), d.fixed()}
		if r.queue[i].owner == "" {
			return record{}, errFormat
		}
	}
	return r, d.end()
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

func (d *decoder) string() string {
	n := d.uvarint()
	if n > backend.MaxOwnerLen {
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
