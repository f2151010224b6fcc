package backend

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// MaxLabelLen is the length in bytes of the longest label of an owner.
const MaxLabelLen = MaxOwnerLen - randomLen - 1

const randomLen = 32 // of the random part of an owner: 128 bits in hex

// NewOwner returns a new unique owner: 128 random bits, then host and process as a label for people, as in
// "4f0c…9a@web-3:4711".
func NewOwner() string { return NewLabelledOwner(hostLabel()) }

// NewLabelledOwner returns a new unique owner with the given label, which ValidateLabel must accept.
func NewLabelledOwner(label string) string {
	var b [randomLen / 2]byte
	rand.Read(b[:])            // never fails since Go 1.24
	var name [MaxOwnerLen]byte // holds the label too, so that only the string is allocated
	return string(append(append(hex.AppendEncode(name[:0], b[:]), '@'), label...))
}

// ValidateLabel returns ErrInvalid if label is empty, longer than MaxLabelLen, or has a character that is not
// printable. It refuses blanks and quotes too, so that a label needs no quoting in a line of text.
func ValidateLabel(label string) error {
	switch {
	case label == "":
		return fmt.Errorf("%w: empty owner label", ErrInvalid)
	case len(label) > MaxLabelLen:
		return fmt.Errorf("%w: owner label of %d bytes is longer than %d", ErrInvalid, len(label), MaxLabelLen)
	case printable(label) != label, strings.ContainsAny(label, ` "`):
		return fmt.Errorf("%w: owner label %q has a blank, a quote or a character that is not printable", ErrInvalid, label)
	}
	return nil
}

// Label returns the owner's label: the one passed to NewLabelledOwner, or host and process. It is empty for a free key,
// and for an owner that was not created by NewOwner or NewLabelledOwner.
func (h Holder) Label() string {
	random, label, _ := strings.Cut(h.Owner, "@")
	if len(random) != randomLen {
		return ""
	}
	return label
}

var hostLabel = sync.OnceValue(func() string {
	host, _ := os.Hostname() // "" after an error
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '@' || r == ':' {
			return '_'
		}
		return r
	}, cmp.Or(host, "unknown"))
	const most = 64
	return host[:min(len(host), most)] + ":" + strconv.Itoa(os.Getpid())
})
