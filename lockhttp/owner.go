package lockhttp

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/anylock/lock"
)

const (
	maxOwnerLen  = 128 // of what a client may choose
	maxClientLen = 64  // of a client's name
	nonceBytes   = 8
)

// baseOwner is the part of an owner at the store that the requests of one client for one acquisition share.
func baseOwner(owner, client string) (string, error) {
	if owner == "" || len(owner) > maxOwnerLen {
		return "", fmt.Errorf("%w: owner of %d bytes is not between 1 and %d", lock.ErrInvalid, len(owner), maxOwnerLen)
	}
	if client != "" {
		return owner + "@" + client, nil
	}
	return owner, nil
}

// storeOwner is base with a random number, for one attempt.
func storeOwner(base string) string {
	var b [nonceBytes]byte
	rand.Read(b[:])
	return base + "~" + hex.EncodeToString(b[:])
}

// baseOf is the base of an owner that storeOwner has made, and empty for another's owner.
func baseOf(owner string) string {
	i := strings.LastIndexByte(owner, '~')
	if i < 0 || len(owner)-i-1 != 2*nonceBytes {
		return ""
	}
	if _, err := hex.DecodeString(owner[i+1:]); err != nil {
		return ""
	}
	return owner[:i]
}

// isFrom reports whether storeOwner made owner from base.
func isFrom(owner, base string) bool { return base != "" && baseOf(owner) == base }
