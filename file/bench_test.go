//go:build linux

package file_test

import (
	"context"
	"testing"
	"time"
)

func BenchmarkUncontended(b *testing.B) {
	c := open(b, b.TempDir())
	r := request("k", time.Minute, false)
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	l := mustTry(b, open(b, b.TempDir()), "k", time.Minute)
	for b.Loop() {
		if err := l.Renew(context.Background(), time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTryHeld(b *testing.B) {
	dir := b.TempDir()
	mustTry(b, open(b, dir), "k", time.Hour)
	c := open(b, dir)
	for b.Loop() {
		if _, err := try(c, "k", time.Minute); err == nil {
			b.Fatal("granted")
		}
	}
}

// Two Backends of one process pass the key to and fro through their inboxes, as two processes would.
func BenchmarkHandOff(b *testing.B) {
	dir := b.TempDir()
	rounds := make(chan int)
	for range 2 {
		c := open(b, dir)
		go func() {
			n := 0
			for range b.N / 2 {
				l := mustWait(b, c, "k", time.Minute)
				l.Release(context.Background())
				n++
			}
			rounds <- n
		}()
	}
	<-rounds
	<-rounds
}
