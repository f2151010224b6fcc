package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// A reader that does not read the messages does not block anylock.
func TestNoticesBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := make(chan struct{})
		n := newNotices(func(string) { <-reader })
		begun := time.Now()
		for range 10 * noticesKept {
			n.add("line")
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("adding took %v", d)
		}
		n.close()
		if d := time.Since(begun); d != noticesPatience {
			t.Errorf("close took %v, want %v", d, noticesPatience)
		}
		n.add("late") // must not panic
		close(reader)
		synctest.Wait()
	})
}

func TestNoticesPrintInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed []string
		n := newNotices(func(line string) {
			time.Sleep(time.Millisecond)
			printed = append(printed, line)
		})
		n.add("a")
		n.add("b")
		n.close()
		if len(printed) != 2 || printed[0] != "a" || printed[1] != "b" {
			t.Errorf("printed %q", printed)
		}
	})
}
