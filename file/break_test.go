//go:build linux

package file

import (
	"os"
	"testing"
	"time"
)

// A break that fails after it has marked the file removes the mark, so that the bucket can be used when its lock is
// free again.
func TestFailedBreakRemovesMark(t *testing.T) {
	s, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.spare.close()
	path := s.path(bucketName("k"))
	l, _, ok, err := s.tryLock(t.Context(), path, true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	reached := false
	stopAt = func(point string) {
		if point == "switching" {
			reached = os.Remove(path+replacementSuffix) == nil // the rename fails
		}
	}
	s.breakLock(t.Context(), l)
	stopAt = nil
	s.close(l)
	l, img, ok, err := s.tryLock(t.Context(), path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close(l)
	if !reached || !ok || img.broken {
		t.Errorf("reached the rename %v, locked the file %v, marked %v", reached, ok, img.broken)
	}
}

// The lock of a file that was replaced is not broken again: a process that still waits for it would put the old state
// back.
func TestReplacedFileIsNotBroken(t *testing.T) {
	t.Parallel()
	s, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.spare.close()
	old, _, ok, err := s.tryLock(t.Context(), s.path(bucketName("k")), true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	defer s.close(old)
	s.breakLock(t.Context(), old)
	update := func(change func(r *record, now int64) bool) {
		t.Helper()
		if err := s.update(t.Context(), "k", true, func(r *record, now int64) (bool, error) {
			return change(r, now), nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	update(func(r *record, now int64) bool {
		r.leases = []lease{{"owner", 1, now + int64(time.Minute), false}}
		return true
	})
	s.breakLock(t.Context(), old)
	update(func(r *record, _ int64) bool {
		if r.lease("owner") == nil {
			t.Errorf("the lease is gone: %+v", r)
		}
		return false
	})
}

// If the lock is broken between the write of an update and the check of the mark, the update is repeated, and finds that
// it has offered the key already. The waiters are notified all the same.
func TestRepeatedUpdateNotifies(t *testing.T) {
	for _, shared := range []bool{false, true} {
		dir := t.TempDir()
		b, other := openDir(t, dir), openDir(t, dir)
		held, err := acquire(b, "k", time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		turn, err := Enqueue(t.Context(), other, "k", shared)
		if err != nil {
			t.Fatal(err)
		}
		broken := false
		stopAt = func(point string) {
			if point != "written" {
				return
			}
			stopAt = nil
			l, _, locked, err := other.store.tryLock(t.Context(), other.store.path(bucketName("k")), false)
			if err != nil || locked {
				t.Fatal(locked, err)
			}
			other.store.breakLock(t.Context(), l)
			broken = !isNameOf(l.path, l)
			other.store.close(l)
		}
		err = held.Release(t.Context())
		stopAt = nil
		if err != nil || !broken {
			t.Fatalf("release %v, lock broken %v", err, broken)
		}
		select {
		case <-turn:
		case <-time.After(5 * time.Second):
			t.Errorf("a waiter was not notified; shared %v", shared)
		}
	}
}
