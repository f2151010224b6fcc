package redis

import (
	"crypto/sha1"
	"encoding/hex"
	"testing"
)

// A digest that does not match its text would cost a failed request each time.
func TestDigests(t *testing.T) {
	for name, s := range map[string]script{
		"acquire": acquireScript, "renew": renewScript, "release": releaseScript, "inspect": inspectScript,
		"redlock meet": redlockMeet, "redlock acquire": redlockAcquire, "redlock confirm": redlockConfirm,
		"redlock renew": redlockRenew, "redlock repair": redlockRepair, "redlock release": redlockRelease,
		"redlock inspect": redlockInspect,
	} {
		sum := sha1.Sum([]byte(s.text))
		if got := hex.EncodeToString(sum[:]); got != s.digest {
			t.Errorf("%s: digest is %s, want %s", name, s.digest, got)
		}
	}
}
