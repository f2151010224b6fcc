package conformance

import "testing"

func TestCollisionsCollide(t *testing.T) {
	sums := make(map[string]func([]byte) uint32)
	for _, h := range hashes() {
		sums[h.name] = h.sum
	}
	all := collisions("conformance-0123456789abcdef-")
	if len(all) != len(sums) {
		t.Errorf("%d pairs for %d hashes: a name is there twice", len(all), len(sums))
	}
	for _, c := range all {
		if sum := sums[c.hash]; c.one == c.two || sum([]byte(c.one)) != sum([]byte(c.two)) {
			t.Errorf("%s of %q and %q", c.hash, c.one, c.two)
		}
	}
}

func BenchmarkCollisions(b *testing.B) {
	for b.Loop() {
		collisions("conformance-0123456789abcdef-")
	}
}

func TestMurmur3(t *testing.T) {
	for key, want := range map[string]uint32{"": 0, "test": 0xba6bd213, "hello": 0x248bfa47, "Hello, world!": 0xc0363e43} {
		if got := murmur3([]byte(key)); got != want {
			t.Errorf("%q: %#x, want %#x", key, got, want)
		}
	}
}
