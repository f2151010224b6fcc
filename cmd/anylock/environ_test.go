package main

import (
	"slices"
	"testing"
)

func TestChildEnv(t *testing.T) {
	env := []string{"A=1", "ANYLOCK_TOKEN=1", "ANYLOCK_KEY=outer", "ANYLOCK_URL=file:", "ANYLOCK_KEY=again",
		"ANYLOCK_OWNER", "B=2", "ANYLOCK_HELD=x y"}
	before := slices.Clone(env)
	got := childEnv(env, "k", "o", 7)
	want := []string{"A=1", "ANYLOCK_URL=file:", "B=2", "ANYLOCK_HELD=x y o", "ANYLOCK_KEY=k", "ANYLOCK_OWNER=o",
		"ANYLOCK_TOKEN=7"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(env, before) {
		t.Errorf("our own environment was changed to %q", env)
	}
}
