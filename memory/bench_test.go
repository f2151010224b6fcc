package memory_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/memory"
)

func BenchmarkUncontended(b *testing.B) {
	c := memory.New()
	defer c.Close()
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := request("k"+strconv.FormatInt(n.Add(1), 10), time.Minute, false)
		for pb.Next() {
			l, err := c.Acquire(context.Background(), r)
			if err != nil {
				b.Error(err)
				return
			}
			l.Release(context.Background())
		}
	})
}

func BenchmarkHandOff(b *testing.B) {
	s := memory.NewStore()
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := s.Client()
		defer c.Close()
		r := request("k", time.Minute, true)
		for pb.Next() {
			l, err := c.Acquire(context.Background(), r)
			if err != nil {
				b.Error(err)
				return
			}
			l.Release(context.Background())
		}
	})
}
