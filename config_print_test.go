package lock_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/anylock/lock"
)

// No way of printing a Config shows its password.
func TestConfigHidesPassword(t *testing.T) {
	for rawURL, shown := range map[string]string{
		"redis://u:secret@h:1/0?password=secret":          "redis://h:1/0",
		"postgres://host/db?user=bob@srv&password=secret": "postgres://***",
		"postgres://host/db?password=p@secret":            "postgres://***",
	} {
		configHidesPassword(t, rawURL, shown)
	}
}

func configHidesPassword(t *testing.T, rawURL, shown string) {
	n := 3
	c := lock.Config{URL: rawURL, TTL: lock.Duration(time.Minute), Handoff: &n,
		Require: lock.Need{FIFO: true, MaxLeases: 7}}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "config", c, "pointer", &c)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "config", c, "pointer", &c)
	texts := []string{log.String(), fmt.Sprint(c), c.String(), (&c).GoString()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		texts = append(texts, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, []lock.Config{c}),
			fmt.Sprintf(verb, struct{ C lock.Config }{c}))
	}
	for _, text := range texts {
		if strings.Contains(text, "secret") {
			t.Errorf("shown: %s", text)
		}
	}
	if got, want := c.String(), `{"url":"`+shown+`","ttl":"1m0s","handoff":3,"require":"fifo,max-leases=7"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c.URL != rawURL {
		t.Errorf("printing has changed it: %s", c.URL)
	}
}

// An Error cuts a long key between two characters, and prints every key on one line, as valid UTF-8.
func TestErrorShowsKey(t *testing.T) {
	for _, key := range []string{strings.Repeat("é", 100), "a" + strings.Repeat("é", 100), strings.Repeat("日", 100), "a" +
		strings.Repeat("日", 100)} {
		text := (&lock.Error{Op: "acquire", Key: key, Err: lock.ErrHeld}).Error()
		if !utf8.ValidString(text) || strings.Contains(text, `\x`) || !strings.Contains(text, "…") {
			t.Errorf("%s", text)
		}
	}
	for _, key := range []string{strings.Repeat("\xff", 100), strings.Repeat("\x80", 100), "a\nb", "\x1b[31m"} {
		text := (&lock.Error{Op: "acquire", Key: key, Err: lock.ErrHeld}).Error()
		if strings.ContainsAny(text, "\n\x1b") || !utf8.ValidString(text) || len(text) > 500 {
			t.Errorf("%q", text)
		}
	}
}
