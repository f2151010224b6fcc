package backend

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"sync"
)

// NewOwner returns a new unique owner: 128 random bits, then the host and process for people to read, as in
// "4f0c…9a@web-3:4711".
func NewOwner() string {
	var b [16]byte
	rand.Read(b[:])            // never fails since Go 1.24
	var name [MaxOwnerLen]byte // with its suffix, the only memory to make is the string's
	return string(append(hex.AppendEncode(name[:0], b[:]), ownerSuffix()...))
}

var ownerSuffix = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '@' || r == ':' {
			return '_'
		}
		return r
	}, host)
	const most = 64
	if len(host) > most {
		host = host[:most]
	}
	return "@" + host + ":" + strconv.Itoa(os.Getpid())
})
