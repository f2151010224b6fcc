package servers

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// scripts/redis-versions fetches exactly the versions in RedisVersions.
func TestRedisVersionsOfScript(t *testing.T) {
	text, err := os.ReadFile("../../scripts/redis-versions")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\t'(\S+) \S+ \S+'$`).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	if !slices.Equal(names, RedisVersions) {
		t.Errorf("the script fetches %q, tests ask for %q", names, RedisVersions)
	}
}
