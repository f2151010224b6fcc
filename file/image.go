package file

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/anylock/lock/backend"
)

// The file of a bucket begins with a page: the name of the format, two slots, and the mark of a broken lock. An image
// of the bucket's state is in one of the slots. A new image is written to the other slot, so that the old image
// survives if the process is killed during the write. An image that is too long for a slot is written behind the page,
// where it does not overlap the old image. The head that refers to it is written after it.
//
//	slot  = head body, or head alone
//	head  = magic, CRC-32C of the rest of the head and the body, sequence number, offset of the body, length of the body
const (
	pageSize = 4096
	brokenAt = pageSize - 1
	headSize = 4 + 4 + 8 + 8 + 4
	slotA    = 32
	slotB    = pageSize / 2
	slotSize = slotB - slotA
	maxBody  = 64 << 20
	// truncateAbove is the size up to which a file is not truncated when its images become short.
	truncateAbove = 64 << 10

	formatPrefix = "anylock bucket, format " // and the format's number
)

var (
	fileHeader = fmt.Appendf(nil, "%-*s", slotA, fmt.Sprintf("%s%d\n", formatPrefix, folderFormat))
	magic      = [4]byte{'a', 'l', 'k', folderFormat}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	slotStarts = [2]int{slotA, slotB}
)

// An image is the state of a file as read. The zero image means a new file.
type image struct {
	seq    uint64 // grows by one with every write
	slot   int
	off    int64 // of the body
	body   []byte
	broken bool // see breakLock
}

var (
	// errForeign reports a file in the folder that this store did not create.
	errForeign = fmt.Errorf("%w: not written by this store", backend.ErrInvalid)
	// errOtherFormat means that another version of the store has written a bucket.
	errOtherFormat = fmt.Errorf("%w: written by another version of this store", backend.ErrUnsupported)
	// errTorn means that no slot contains a valid image: two writes have overtaken a read without the lock, or a power
	// failure has damaged the file.
	errTorn = fmt.Errorf("%w: damaged, as by a power failure; remove the file while no program uses it",
		backend.ErrInvalid)
)

// readImage reads the newest valid image. A file is new until its first image is complete: it is empty, or contains
// only a part of the first write.
func readImage(fd int) (image, error) {
	page := make([]byte, pageSize)
	n, err := readAt(fd, page, 0)
	if err != nil {
		return image{}, err
	}
	broken := page[brokenAt] != 0
	page[brokenAt] = 0
	if !bytes.HasPrefix(page, fileHeader) {
		switch {
		case bytes.HasPrefix(fileHeader, bytes.TrimRight(page, "\x00")):
			return image{broken: broken}, nil
		case bytes.HasPrefix(page, []byte(formatPrefix)):
			return image{}, errOtherFormat
		}
		return image{}, errForeign
	}
	heads := []head{parseHead(page[:n], 0), parseHead(page[:n], 1)}
	slices.SortFunc(heads, func(a, b head) int { return cmp.Compare(b.seq, a.seq) }) // the newer one first
	for _, h := range heads {
		if h.seq == 0 {
			break
		}
		body, err := readBody(fd, page[:n], h)
		if err != nil {
			return image{}, err
		}
		if body != nil && h.sum == checksum(h.raw, body) {
			return image{seq: h.seq, slot: h.slot, off: h.off, body: body, broken: broken}, nil
		}
	}
	if len(bytes.TrimRight(page[slotB:], "\x00")) > 0 { // the first write goes to the first slot
		return image{}, errTorn
	}
	return image{broken: broken}, nil
}

type head struct {
	slot int
	raw  []byte
	sum  uint32
	seq  uint64 // 0 if there is no head
	off  int64
	size int
}

func parseHead(page []byte, slot int) (h head) {
	at := slotStarts[slot]
	if len(page) < at+headSize || [4]byte(page[at:]) != magic {
		return head{}
	}
	raw := page[at:][:headSize]
	h = head{
		slot: slot,
		raw:  raw,
		sum:  binary.LittleEndian.Uint32(raw[4:]),
		seq:  binary.LittleEndian.Uint64(raw[8:]),
		off:  int64(binary.LittleEndian.Uint64(raw[16:])),
		size: int(binary.LittleEndian.Uint32(raw[24:])),
	}
	if h.size > maxBody || h.off < pageSize && (h.off != int64(at+headSize) || h.size > slotSize-headSize) {
		return head{}
	}
	return h
}

// readBody returns nil if the file ends before the body does.
func readBody(fd int, page []byte, h head) ([]byte, error) {
	if h.off < pageSize {
		if int(h.off)+h.size > len(page) {
			return nil, nil
		}
		return page[h.off:][:h.size:h.size], nil
	}
	body := make([]byte, h.size)
	n, err := readAt(fd, body, h.off)
	if err != nil || n < len(body) {
		return nil, err
	}
	return body, nil
}

func checksum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[8:], castagnoli), castagnoli, body)
}

// writeImage replaces old, the newest image of a file of that size. After an error, the file contains either the old or
// the new image.
func writeImage(fd int, old image, size int64, body []byte) error {
	if len(body) > maxBody {
		return fmt.Errorf("bucket of %d bytes is too long", len(body))
	}
	slot, begin := 1-old.slot, []byte(nil)
	if old.seq == 0 {
		slot, begin = 0, fileHeader
	}
	at := int64(slotStarts[slot])
	inline := headSize+len(body) <= slotSize
	off := at + headSize
	if !inline {
		off = pageSize
		if room := old.off - pageSize; old.off >= pageSize && int64(len(body)) > room {
			off = old.off + int64(len(old.body))
		}
	}
	out := make([]byte, len(begin)+headSize, len(begin)+headSize+min(len(body), slotSize))
	copy(out, begin)
	head := out[len(begin):]
	copy(head, magic[:])
	binary.LittleEndian.PutUint64(head[8:], old.seq+1)
	binary.LittleEndian.PutUint64(head[16:], uint64(off))
	binary.LittleEndian.PutUint32(head[24:], uint32(len(body)))
	binary.LittleEndian.PutUint32(head[4:], checksum(head, body))
	end := int64(pageSize)
	if inline {
		out = append(out, body...)
	} else {
		if err := writeAt(fd, body, off); err != nil {
			return err
		}
		point("body")
		end = off + int64(len(body))
	}
	if err := writeAt(fd, out, at-int64(len(begin))); err != nil {
		return err
	}
	if size > truncateAbove && end < size/4 {
		truncateFD(fd, end) // may cut off the old image, which is no longer needed
	}
	return nil
}

// isBroken reports whether the lock of a file has been broken.
func isBroken(fd int) (bool, error) {
	var mark [1]byte
	_, err := readAt(fd, mark[:], brokenAt)
	return mark[0] != 0, err
}
