package conformance

import (
	"hash/fnv"
	"testing"
)

// Values that the authors of these functions, or programs that use them, give.
func TestHashesAreThoseOfOthers(t *testing.T) {
	const fox = "The quick brown fox jumps over the lazy dog"
	for _, h := range []struct {
		name string
		sum  func([]byte) uint32
		key  string
		want uint32
	}{
		{"djb2", times(5381, 33), "hello", 261238937},
		{"sdbm", times(0, 65599), "hello", 684824882},
		{"hashCode", times(0, 31), "hello", 99162322},
		{"one at a time", oneAtATime, "a", 0xca2e9442},
		{"one at a time", oneAtATime, fox, 0x519e91f5},
		{"murmur2 of Kafka", murmur2(0x9747b28c), "21", 0xc5f2f8ec},
		{"murmur2 of Kafka", murmur2(0x9747b28c), "foobar", 0xd0e47bbe},
		{"murmur2 of Kafka", murmur2(0x9747b28c), "a-little-bit-long-string", 0xc53b1da0},
		{"murmur3", murmur3, "", 0},
		{"murmur3", murmur3, "hello", 0x248bfa47},
		{"murmur3", murmur3, "hello, world", 0x149bbb7f},
		{"murmur3", murmur3, fox, 0x2e4ff723},
		{"xxHash32", xxHash32, "", 0x02cc5d05},
		{"xxHash32", xxHash32, "abc", 0x32d153ff},
		{"xxHash32", xxHash32, "Nobody inspects the spammish repetition", 0xe2293b2f},
		{"hashtext", hashtext, "", 0xa7ea466d},
		{"hashtext", hashtext, "a", 0x401370b1},
		{"hashtext", hashtext, "twelve bytes", 0x26e9a5dd},
		{"hashtext", hashtext, fox, 0xceae6ac7},
	} {
		if got := h.sum([]byte(h.key)); got != h.want {
			t.Errorf("%s of %q is %#x, want %#x", h.name, h.key, got, h.want)
		}
	}
	for _, key := range []string{"", "a", fox} {
		one, oneA, two, twoA := fnv.New32(), fnv.New32a(), fnv.New64(), fnv.New64a()
		for _, w := range []interface{ Write([]byte) (int, error) }{one, oneA, two, twoA} {
			_, _ = w.Write([]byte(key))
		}
		k := []byte(key)
		if fnv1(k) != one.Sum32() || fnv1a(k) != oneA.Sum32() || fnv1of64(k) != two.Sum64() || fnv1aOf64(k) != twoA.Sum64() {
			t.Errorf("FNV of %q", key)
		}
	}
}

func TestCollisionsCollide(t *testing.T) {
	sums := make(map[string]func([]byte) uint32)
	for _, h := range hashes() {
		sums[h.name] = h.sum
	}
	all := collisions()
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
	table := make([]candidate, candidateSlots)
	for b.Loop() {
		for _, h := range hashes() {
			clear(table)
			collide(h, "conformance-0123456789abcdef-", table)
		}
	}
}
