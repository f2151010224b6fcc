package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Every file holds one image of its state, in one of two slots at its beginning. A new image goes to the other slot, so
// that a process killed in the middle of a write leaves the old one. An image too long for a slot lies behind the slots,
// where it does not overlap the old one, and is written before the head that names it.
//
//	slot  = head body, or head alone
//	head  = magic, CRC-32C of the rest of the head and the body, sequence number, offset of the body, length of the body
const (
	slotSize  = 1024
	headSize  = 4 + 4 + 8 + 8 + 4
	slotsSize = 2 * slotSize
	maxBody   = 64 << 20
)

var (
	magic      = [4]byte{'a', 'l', 'k', 1}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// An image is the state of a file as read. The zero image is that of a new file.
type image struct {
	seq  uint64 // grows by one with every write
	slot int
	off  int64 // of the body
	body []byte
}

// errTorn means that no slot is whole.
var errTorn = errors.New("no whole record")

// readImage reads the newest whole image. A file in which none was ever completed, because its maker died, is errTorn.
func readImage(fd int) (image, error) {
	buf := make([]byte, slotsSize)
	n, err := readAt(fd, buf, 0)
	if err != nil {
		return image{}, err
	}
	buf = buf[:n]
	a, aOK := parseHead(buf, 0)
	b, bOK := parseHead(buf, 1)
	if bOK && (!aOK || b.seq > a.seq) {
		a, b, aOK, bOK = b, a, bOK, aOK
	}
	for _, h := range []struct {
		head
		ok bool
	}{{a, aOK}, {b, bOK}} {
		if !h.ok {
			continue
		}
		body, err := readBody(fd, buf, h.head)
		if err != nil {
			return image{}, err
		}
		if body != nil && h.sum == checksum(h.raw, body) {
			return image{seq: h.seq, slot: h.slot, off: h.off, body: body}, nil
		}
	}
	return image{}, errTorn
}

type head struct {
	slot int
	raw  []byte
	sum  uint32
	seq  uint64
	off  int64
	size int
}

func parseHead(buf []byte, slot int) (head, bool) {
	at := slot * slotSize
	if len(buf) < at+headSize || [4]byte(buf[at:at+4]) != magic {
		return head{}, false
	}
	raw := buf[at : at+headSize]
	h := head{
		slot: slot,
		raw:  raw,
		sum:  binary.LittleEndian.Uint32(raw[4:]),
		seq:  binary.LittleEndian.Uint64(raw[8:]),
		off:  int64(binary.LittleEndian.Uint64(raw[16:])),
		size: int(binary.LittleEndian.Uint32(raw[24:])),
	}
	return h, h.seq > 0 && h.size <= maxBody && (h.off == int64(at+headSize) && h.size <= slotSize-headSize || h.off >= slotsSize)
}

// readBody returns nil for a body that is cut off.
func readBody(fd int, buf []byte, h head) ([]byte, error) {
	if h.off < slotsSize {
		if int(h.off)+h.size > len(buf) {
			return nil, nil
		}
		return buf[h.off:][:h.size:h.size], nil
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

// writeImage replaces old, the newest image of the file. An error leaves the one or the other.
func writeImage(fd int, old image, body []byte) error {
	if len(body) > maxBody {
		return fmt.Errorf("record of %d bytes is too long", len(body))
	}
	slot := 1 - old.slot
	if old.seq == 0 {
		slot = 0
	}
	at := slot * slotSize
	inline := headSize+len(body) <= slotSize
	off := int64(at + headSize)
	if !inline {
		off = slotsSize
		if room := old.off - slotsSize; old.off >= slotsSize && int64(len(body)) > room {
			off = old.off + int64(len(old.body))
		}
	}
	head := make([]byte, headSize, headSize+slotSize)
	copy(head, magic[:])
	binary.LittleEndian.PutUint64(head[8:], old.seq+1)
	binary.LittleEndian.PutUint64(head[16:], uint64(off))
	binary.LittleEndian.PutUint32(head[24:], uint32(len(body)))
	binary.LittleEndian.PutUint32(head[4:], checksum(head, body))
	if inline {
		return writeAt(fd, append(head, body...), int64(at))
	}
	if err := writeAt(fd, body, off); err != nil {
		return err
	}
	point("body")
	return writeAt(fd, head, int64(at))
}
