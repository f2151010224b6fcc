package file

import (
	"fmt"
	"hash/crc32"
	"time"
)

// buckets is the number of files that keys are spread over. It is so large that 64 workers rarely need the same file,
// and so small that creating all files, once, takes only a moment.
const buckets = 256

// bucketPrefix begins the names of buckets.
const bucketPrefix = "bucket."

// bucketName returns the name of the file that contains a key.
func bucketName(key string) string { return fmt.Sprintf("%s%02x", bucketPrefix, bucketOf(key)) }

func bucketOf(key string) uint32 { return crc32.ChecksumIEEE([]byte(key)) % buckets }

// A bucket is the content of one file: the state of its keys that are held or waited for.
type bucket struct {
	token   uint64 // the highest token granted
	entries []entry
}

// An entry is one key of a bucket.
type entry struct {
	dropAt int64 // from when the entry may be dropped
	key    []byte
	record []byte
}

// abandonedAfter is how long a free key with waiters may stay unclaimed before the waiters are considered dead. Live
// waiters poll more often.
const abandonedAfter = time.Minute

// decodeBucket skips expired entries. If the bucket is from another boot, old is true and all entries are skipped,
// because times are valid only during one boot. An empty body means a new file.
//
// A container with a boot id of its own has the clock of its host. So another boot id than its own is no proof of
// another boot, unless the bucket was written at a later time than now. Without that proof, entries of an earlier boot
// may count for up to their TTL.
func decodeBucket(body []byte, boot bootID, now int64) (b bucket, old bool, err error) {
	if len(body) == 0 {
		return b, false, nil
	}
	d := &decoder{b: body}
	var from bootID
	copy(from[:], d.next(uint64(len(from))))
	written := int64(d.uint())
	old = from != boot && (written > now || !from.isOwn() && !boot.isOwn())
	b.token = d.uint()
	for len(d.b) > 0 {
		e := entry{int64(d.uint()), d.bytes(), d.bytes()}
		if !old && now < e.dropAt {
			b.entries = append(b.entries, e)
		}
	}
	return b, old, d.err()
}

// record returns the state of a key at the time now.
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

// encode returns the bucket's body, with r as the record of key, to be written at the time now.
func (b *bucket) encode(boot bootID, now int64, key string, r *record) []byte {
	size := 72 + len(key) + 96*(len(r.leases)+len(r.queue))
	for _, e := range b.entries {
		size += 24 + len(e.key) + len(e.record)
	}
	out := appendUint(append(make([]byte, 0, size), boot[:]...), uint64(now))
	out = appendUint(out, max(b.token, r.last))
	for _, e := range b.entries {
		if string(e.key) != key {
			out = appendBytes(appendBytes(appendUint(out, uint64(e.dropAt)), e.key), e.record)
		}
	}
	if len(r.leases) > 0 || len(r.queue) > 0 {
		out = appendBytes(appendBytes(appendUint(out, uint64(r.dropAt())), []byte(key)), r.append(nil))
	}
	return out
}

// dropAt returns from when the record may be dropped: if nothing changes until then, nobody holds or waits for the key
// any more.
func (r *record) dropAt() int64 {
	expires := r.latest().expires
	if len(r.queue) == 0 {
		return expires
	}
	return max(expires, r.claimBy) + int64(len(r.queue))*int64(claimGrace) + int64(abandonedAfter)
}

// maxWallToken limits the tokens that come from the wall clock, so that a clock that is wrong by centuries does not use
// up all tokens.
const maxWallToken = 1 << 54

// nextToken returns last+1, or the wall clock's microseconds if those are higher. So tokens increase even if the folder
// is lost.
func (s *store) nextToken(last uint64) uint64 {
	return max(last+1, uint64(min(max(s.wall().UnixMicro(), 1), maxWallToken)))
}
