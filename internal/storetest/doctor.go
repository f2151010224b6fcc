package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// Examined returns the findings of a store about its servers.
func Examined(t testing.TB, b backend.Backend) []backend.Finding {
	t.Helper()
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := b.(backend.Examiner).Examine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		t.Logf("%v %s %s: %s", f.Severity, f.Code, f.Where, f.Found)
	}
	return list
}

// Finds fails the test unless the store has findings with all codes. It returns the first finding with the first code.
func Finds(t testing.TB, b backend.Backend, codes ...string) (first backend.Finding) {
	t.Helper()
	list := Examined(t, b)
	for i, code := range codes {
		at := slices.IndexFunc(list, func(f backend.Finding) bool { return f.Code == code })
		if at < 0 {
			t.Errorf("no finding %s", code)
		} else if i == 0 {
			first = list[at]
		}
	}
	return first
}

// Healthy fails the test if the store has a finding that is more severe than Info.
func Healthy(t testing.TB, b backend.Backend) {
	t.Helper()
	for _, f := range Examined(t, b) {
		if f.Severity > backend.Info {
			t.Errorf("%v %s: %s", f.Severity, f.Code, f.Found)
		}
	}
}
