package redistest

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

// timeIn finds the seconds in the reply to TIME.
var timeIn = regexp.MustCompile(`^\*2\r\n\$10\r\n(\d{10})\r\n`)

// Shifted returns a proxy to the server at addr that adds an hour to the server's time in the replies to TIME.
func Shifted(t *testing.T, addr string) *storetest.Proxy {
	p := storetest.NewProxy(t, addr)
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func(piece []byte) bool {
			if at := timeIn.FindSubmatchIndex(piece); at != nil {
				seconds, _ := strconv.Atoi(string(piece[at[2]:at[3]]))
				copy(piece[at[2]:at[3]], strconv.Itoa(seconds+3600))
			}
			return true
		}
	})
	return p
}
