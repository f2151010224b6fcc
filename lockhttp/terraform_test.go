package lockhttp_test

import (
	"strings"
	"testing"

	"github.com/anylock/lock/lockhttp"
)

// Lock information as Terraform 1.11.4 sends it, recorded.
const (
	lockBody = `{"ID":"da74fc28-61f0-79b3-6933-e7d46e504d32","Operation":"OperationTypeApply","Info":"","Who":"root@vm","Version":"1.11.4","Created":"2026-11-26T09:39:24.569222093Z","Path":""}`
	nextBody = `{"ID":"00000000-61f0-79b3-6933-e7d46e504d32","Operation":"OperationTypeApply","Info":"","Who":"you@vm","Version":"1.11.4","Created":"2026-11-26T09:40:24.569222093Z","Path":""}`
)

// Terraform's requests lock and unlock. If the key is busy, the reply has the lock information of the holder.
func TestTerraformRequests(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		const target = "/v1/terraform/net%2Fprod"
		w.want(200, "LOCK", target, lockBody)
		w.want(200, "LOCK", target, lockBody)
		if a := w.want(423, "LOCK", target, nextBody); a.text != lockBody {
			t.Errorf("refused with %s", a.text)
		}
		if a := w.want(200, "GET", of("net/prod"), ""); a.body.TTL == nil || *a.body.TTL < 3_500_000 {
			t.Errorf("the lock ends early: %s", a.text)
		}
		w.want(410, "UNLOCK", target, nextBody)
		w.stop()
		w.start()
		if a := w.want(423, "LOCK", target, nextBody); !strings.Contains(a.text,
			`"ID":"da74fc28-61f0-79b3-6933-e7d46e504d32"`) {
			t.Errorf("after a restart, refused with %s", a.text)
		}
		w.want(200, "UNLOCK", target, lockBody)
		w.want(200, "LOCK", target, nextBody)
		w.want(200, "UNLOCK", target, "") // force-unlock
		w.want(200, "LOCK", target, lockBody)
		w.want(400, "LOCK", target, "{}")
		w.want(400, "LOCK", target, "")
	})
}

// A client that may take locks but not break them cannot use force-unlock.
func TestForceUnlockNeedsARight(t *testing.T) {
	o := lockhttp.Options{Clients: []lockhttp.Client{
		{Name: "ci", Token: "token-of-ci-0123456789", Rights: rights("", lockhttp.Take)},
	}}
	inBubble(t, o, func(w *world) {
		w.token = "token-of-ci-0123456789"
		w.want(200, "LOCK", "/v1/terraform/k", lockBody)
		w.want(403, "UNLOCK", "/v1/terraform/k", "")
		w.want(423, "LOCK", "/v1/terraform/k", nextBody)
	})
}
