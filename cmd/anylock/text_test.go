package main

import (
	"testing"
	"time"

	"github.com/anylock/lock"
)

// Text that other clients wrote into a store is quoted before it reaches a terminal.
func TestHolderText(t *testing.T) {
	for _, test := range []struct {
		holder lock.Holder
		want   string
	}{
		{lock.Holder{Owner: "4f0c9a1b22334455@web-3:4711", Token: 17, TTL: 12345 * time.Millisecond, Waiters: -1},
			"4f0c9a1b…@web-3:4711 (token 17, 12.3s left)"},
		{lock.Holder{Owner: "4f0c9a1b22334455@web-3:4711", TTL: 340 * time.Millisecond, Waiters: 2},
			"4f0c9a1b…@web-3:4711 (340ms left, 2 waiting)"},
		{lock.Holder{Owner: "by hand"}, `"by hand"`},
		{lock.Holder{Owner: "a\x1b[2Jb\n"}, `"a\x1b[2Jb\n"`},
		{lock.Holder{Owner: "\xff"}, `"\xff"`},
	} {
		if got := holderText(test.holder); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
	if got, want := oneLine("a\r\nb\x1b[2J"), "a  b [2J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
