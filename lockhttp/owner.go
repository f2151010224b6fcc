package lockhttp

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

const (
	maxOwnerLen  = 128 // of the owner that a client chooses, in bytes
	maxLabelLen  = 40  // in bytes; base, label and number fit in backend.MaxOwnerLen
	maxClientLen = 64  // of a client's name
	nonceBytes   = 8
)

// baseOwner returns the part of an owner at the store that all requests of one client for one acquisition share.
func baseOwner(owner, client string) (string, error) {
	switch {
	case owner == "":
		return "", fmt.Errorf("%w: owner is missing: a text that no other acquisition has used", lock.ErrInvalid)
	case len(owner) > maxOwnerLen:
		return "", fmt.Errorf("%w: owner of %d bytes is longer than %d", lock.ErrInvalid, len(owner), maxOwnerLen)
	case client != "":
		return owner + "@" + client, nil
	}
	return owner, nil
}

// validateLabel accepts an empty label too.
func validateLabel(label string) error {
	switch {
	case label == "":
		return nil
	case len(label) > maxLabelLen:
		return fmt.Errorf("%w: label of %d bytes is longer than %d", lock.ErrInvalid, len(label), maxLabelLen)
	case strings.Contains(label, "~"):
		return fmt.Errorf("%w: label contains '~'", lock.ErrInvalid)
	}
	return backend.ValidateLabel(label)
}

// A leaseName is an owner at the store: base, label, mode, and the random number of one attempt. The label has no '~',
// so that a client's text in base cannot imitate another client's base.
type leaseName struct {
	base, label string
	shared      bool
	nonce       string
}

func newLeaseName(base, label string, shared bool) leaseName {
	var b [nonceBytes]byte
	rand.Read(b[:])
	return leaseName{base, label, shared, hex.EncodeToString(b[:])}
}

// owner returns the text that parseLeaseName parses.
func (n leaseName) owner() string {
	mode := "x"
	if n.shared {
		mode = "s"
	}
	return n.base + "~" + n.label + "~" + mode + n.nonce
}

// parseLeaseName parses an owner at the store. ok is false if no Server made the owner.
func parseLeaseName(owner string) (n leaseName, ok bool) {
	front, number, ok := cutLast(owner)
	if !ok || len(number) != 1+2*nonceBytes || number[0] != 'x' && number[0] != 's' {
		return leaseName{}, false
	}
	n.shared, n.nonce = number[0] == 's', number[1:]
	if _, err := hex.DecodeString(n.nonce); err != nil {
		return leaseName{}, false
	}
	n.base, n.label, ok = cutLast(front)
	return n, ok && n.base != ""
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '~')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// labelOf returns the label of a holder, which may be a client of a Server or of the library.
func labelOf(h lock.Holder) string {
	if n, ok := parseLeaseName(h.Owner); ok {
		return n.label
	}
	return h.Label()
}
