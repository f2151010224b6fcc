package file

import (
	"fmt"
	"hash/crc32"
	"time"
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
	token   uint64 // the highest one granted
	entries []entry
}

// An entry is one key of a bucket.
type entry struct {
	over   int64 // when it may be dropped
	key    []byte
	record []byte
}

// abandoned is how long nobody claims a free key that is waited for, until its waiters count as dead: living ones poll
// it more often.
const abandoned = time.Minute

// decodeBucket leaves out what is over, and what a reboot has ended: times mean something during one boot only. It
// reports whether the bucket is of another boot. An empty body is that of a new file.
func decodeBucket(body []byte, boot bootID, now int64) (b bucket, old bool, err error) {
	if len(body) == 0 {
		return b, false, nil
	}
	d := &decoder{b: body}
	old = string(d.take(uint64(len(boot)))) != string(boot[:])
	b.token = d.uint()
	for len(d.b) > 0 {
		e := entry{int64(d.uint()), d.bytes(), d.bytes()}
		if !old && now < e.over {
			b.entries = append(b.entries, e)
		}
	}
	return b, old, d.err()
}

// record is what the bucket says of a key now.
func (b *bucket) record(key string, now int64) (r record, err error) {
	for _, e := range b.entries {
		if string(e.key) == key {
			r, err = decodeRecord(e.record)
			r.expire(now)
		}
	}
	r.last = b.token
	return r, err
}

// encode is the bucket's body with a key's record in it.
func (b *bucket) encode(boot bootID, key string, r *record) []byte {
	size := 64 + len(key) + 96*(len(r.leases)+len(r.queue))
	for _, e := range b.entries {
		size += 24 + len(e.key) + len(e.record)
	}
	out := append(make([]byte, 0, size), boot[:]...)
	out = appendUint(out, max(b.token, r.last))
	for _, e := range b.entries {
		if string(e.key) != key {
			out = appendBytes(appendBytes(appendUint(out, uint64(e.over)), e.key), e.record)
		}
	}
	if len(r.leases) > 0 || len(r.queue) > 0 {
		out = appendBytes(appendBytes(appendUint(out, uint64(r.over())), []byte(key)), r.append(nil))
	}
	return out
}

// over is when nobody has or waits for the key any more, if nothing happens until then.
func (r *record) over() int64 {
	expires := r.latest().expires
	if len(r.queue) == 0 {
		return expires
	}
	return max(expires, r.claimBy) + int64(len(r.queue))*int64(claimGrace) + int64(abandoned)
}

// neverOver bounds the tokens of a wall clock that is wrong by centuries, which must not use up all.
const neverOver = 1 << 54

// nextToken follows the last token of a bucket, and is the time in microseconds if that is higher: tokens rise over the
// loss of the folder, too.
func (s *store) nextToken(last uint64) uint64 {
	return max(last+1, uint64(min(max(s.wall().UnixMicro(), 1), neverOver)))
}
