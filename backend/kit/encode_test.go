package kit

import (
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

var encodings = map[string]Encoding{
	"default":  {},
	"long":     {Max: 200},
	"shortest": {Max: 64, Extra: "=.~/"},
	"other":    {Max: 100, Extra: ".:="},
	"plus":     {Max: 80, Extra: "+ABC%"},
}

func TestEncode(t *testing.T) {
	for _, test := range []struct {
		encoding  Encoding
		key, want string
	}{
		{Encoding{}, "abcXYZ089-_", "abcXYZ089-_"},
		{Encoding{}, "a/b", "a%2fb"},
		{Encoding{}, "a%2fb", "a%252fb"},
		{Encoding{}, "é\x00\xff", "%c3%a9%00%ff"},
		{Encoding{}, ".", "%2e"},
		{Encoding{Extra: "./"}, "a/b.c", "a/b.c"},
		{Encoding{Extra: "+%"}, "a+b %", "a+b%20%25"},
		{Encoding{Max: 64}, strings.Repeat("x", 64), strings.Repeat("x", 64)},
		{Encoding{Max: 64}, strings.Repeat("x", 65), "xxxxxxxx%=ikrsbvfh4142uvaoq9f9tlc3ukm05d730jl82jdhcctdapdeqvkg"},
		{Encoding{Max: 64}, strings.Repeat("/", 22), "%2f%2f%2f%=mc7v2d1tj82d9uvd8b8qebu5hu2pu8dpt0e7u37mgnb9sebqbla0"},
		{Encoding{Max: 64}, "a" + strings.Repeat("/", 22),
			"a%2f%2f%2f%=7epcsc78f5gc0nljco38pq2pu7399858u8fiupjmelfaidn1mfc0"},
		{Encoding{Max: 64}, "ab" + strings.Repeat("/", 22),
			"ab%2f%2f%=o36k3kud7eh55ci5r0h9sa6mdmfjtgfdgvqffu9ilcnrku1tvrrg"},
	} {
		if got := test.encoding.Encode(test.key); got != test.want {
			t.Errorf("%+v: %q is %q, want %q", test.encoding, test.key, got, test.want)
		}
	}
}

// Keys that a careless encoding would give the same name have different names.
func TestEncodeKeepsKeysApart(t *testing.T) {
	long := strings.Repeat("x", backend.MaxKeyLen-1)
	keys := []string{
		"a", "A", "a/b", "a%2fb", "a%2Fb", "a%252fb", "a+2fb", "a-2fb", "a=", "a%=", "a%3d", "a-3d", "a+3d", ".", "..", "%",
		"%%", "+", "-", "--",
		" ", "\x00", "a\x00", "é", "e\u0301", "É", long, long + "x", long + "y", long + "X", "x" + long,
		strings.Repeat("/", 40), strings.Repeat("/", 41), strings.Repeat("%2f", 40), strings.Repeat("/", 1000),
		strings.Repeat("/", 1001),
	}
	for n := range 200 { // lengths around the cut, and keys that look like cut names
		keys = append(keys, strings.Repeat("k", n+1), strings.Repeat("k", n)+"/")
		for _, e := range encodings {
			name := e.Encode(strings.Repeat("k", n+1) + "/")
			keys = append(keys, name, strings.ToUpper(name), name[:len(name)-1])
		}
	}
	for name, e := range encodings {
		t.Run(name, func(t *testing.T) {
			seen := make(map[string]string)
			for _, key := range keys {
				got := e.Encode(key)
				checkName(t, e, key, got)
				if other, taken := seen[got]; taken && other != key {
					t.Errorf("%q and %q are both %q", key, other, got)
				}
				seen[got] = key
			}
		})
	}
}

// checkName checks the length and the bytes of a name, and that Decode reverses Encode.
func checkName(t *testing.T, e Encoding, key, name string) {
	t.Helper()
	if e.Max > 0 && len(name) > e.Max {
		t.Errorf("%q has %d bytes, %d are allowed", name, len(name), e.Max)
	}
	for i := range len(name) {
		c := name[i]
		if !e.plain(c) && c != '%' && c != '=' {
			t.Errorf("%q holds %q", name, c)
		}
	}
	if got, ok := e.Decode(name); ok != !strings.Contains(name, "%=") || ok && got != key {
		t.Errorf("%q is the name of %q, %v; want %q", name, got, ok, key)
	}
	if e.Encode(key) != name {
		t.Errorf("%q is not always the same", key)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("a", "A")
	f.Add("a/b", "a%2fb")
	f.Add(strings.Repeat("x", 65), strings.Repeat("x", 66))
	f.Add("\xff", "\xfe")
	f.Fuzz(func(t *testing.T, a, b string) {
		for name, e := range encodings {
			x, y := e.Encode(a), e.Encode(b)
			checkName(t, e, a, x)
			if a != b && x == y {
				t.Errorf("%s: %q and %q are both %q", name, a, b, x)
			}
			// A key that looks like the name of another key has a name of its own.
			if n := e.Encode(a); n != a && e.Encode(n) == n {
				t.Errorf("%s: %q and %q are both %q", name, a, n, n)
			}
		}
	})
}
