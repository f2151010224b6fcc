package file

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/anylock/lock/backend"
)

// buckets is how many files keys are spread over. They are enough that 64 workers rarely meet in one, and so few that
// making them all takes a moment, once.
const buckets = 256

// bucketPrefix begins the names of buckets.
const bucketPrefix = "bucket."

// bucketName is the name of the file that a key is in.
func bucketName(key string) string { return fmt.Sprintf("%s%02x", bucketPrefix, bucketOf(key)) }

func bucketOf(key string) uint32 { return crc32.ChecksumIEEE([]byte(key)) % buckets }

// A bucket is the state of the keys of one file: those that are held or waited for.
type bucket struct {
	boot    bootID // times mean something during this boot only
	token   uint64 // the highest one granted
	entries []byte // one behind the other: its length, when it is over, the key, the record
}

// abandoned is how long nobody claims a free key that is waited for, until its waiters count as dead: living ones look
// at it more often, see lookMost.
const abandoned = time.Minute

const (
	entryHead = 4 + 8
	kind      = 'B'
	version   = folderFormat
)

// decodeBucket leaves out what a reboot has ended, and reports whether the bucket is of another boot. An empty body is
// that of a new file.
func (s *store) decodeBucket(body []byte) (b bucket, old bool, err error) {
	b.boot = s.boot
	if len(body) == 0 {
		return b, false, nil
	}
	switch {
	case len(body) < 2 || body[0] != kind:
		return bucket{}, false, errFormat
	case body[1] != version:
		return bucket{}, false, fmt.Errorf("%w: format %d, written by another version of this store", backend.ErrUnsupported,
			body[1])
	}
	d := &decoder{b: body[2:]}
	old = d.boot() != s.boot
	b.token = d.uvarint()
	if d.bad {
		return bucket{}, false, errFormat
	}
	if !old {
		b.entries = d.b
	}
	return b, old, nil
}

// nextEntry cuts off the first entry. The rest is nil after the last one.
func nextEntry(entries []byte) (entry, key, rec, rest []byte, over int64, err error) {
	if len(entries) < entryHead {
		return nil, nil, nil, nil, 0, errFormat
	}
	size := int(binary.LittleEndian.Uint32(entries))
	if size < entryHead || size > len(entries) {
		return nil, nil, nil, nil, 0, errFormat
	}
	entry, rest = entries[:size], entries[size:]
	over = int64(binary.LittleEndian.Uint64(entry[4:]))
	n, used := binary.Uvarint(entry[entryHead:])
	if used <= 0 || n > uint64(size-entryHead-used) {
		return nil, nil, nil, nil, 0, errFormat
	}
	at := entryHead + used
	return entry, entry[at:][:n], entry[at+int(n):], rest, over, nil
}

// record is what the bucket says of a key now.
func (b *bucket) record(key string, now int64) (record, error) {
	r := record{}
	for entries := b.entries; len(entries) > 0; {
		_, k, rec, rest, over, err := nextEntry(entries)
		if err != nil {
			return record{}, err
		}
		if string(k) == key && now < over {
			if r, err = decodeRecord(rec); err != nil {
				return record{}, err
			}
			r.expire(now)
			break
		}
		entries = rest
	}
	r.last = b.token
	return r, nil
}

// with is the bucket's image with a key's record in it, and without what is over.
func (b *bucket) with(key string, r *record, now int64) ([]byte, error) {
	out := make([]byte, 0, 64+len(b.entries)+len(key)+r.size())
	out = append(out, kind, version)
	out = append(out, b.boot[:]...)
	out = binary.AppendUvarint(out, max(b.token, r.last))
	for entries := b.entries; len(entries) > 0; {
		entry, k, _, rest, over, err := nextEntry(entries)
		if err != nil {
			return nil, err
		}
		if string(k) != key && now < over {
			out = append(out, entry...)
		}
		entries = rest
	}
	if len(r.leases) == 0 && len(r.queue) == 0 {
		return out, nil
	}
	at := len(out)
	out = append(out, make([]byte, entryHead)...)
	out = appendString(out, key)
	out = r.append(out)
	binary.LittleEndian.PutUint32(out[at:], uint32(len(out)-at))
	binary.LittleEndian.PutUint64(out[at+4:], uint64(r.over()))
	return out, nil
}

// over is when nobody has or waits for the key any more, if nothing happens until then.
func (r *record) over() int64 {
	expires := r.latest().expires
	if len(r.queue) == 0 {
		return expires
	}
	return max(expires, r.claimBy) + int64(len(r.queue))*int64(claimGrace) + int64(abandoned)
}

const (
	maxToken  = 1<<55 - 1
	neverOver = 1 << 54 // a wall clock that is wrong by centuries must not use up all tokens
)

// nextToken follows the last token of a bucket, and is the time in microseconds if that is higher: tokens rise over the
// loss of the folder, too.
func (s *store) nextToken(last uint64) (uint64, error) {
	t := max(last+1, uint64(min(max(s.wall().UnixMicro(), 1), neverOver)))
	if t > maxToken {
		return 0, fmt.Errorf("%w: no tokens are left", backend.ErrUnsupported)
	}
	return t, nil
}
