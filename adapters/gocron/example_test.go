package gocronlock_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/anylock/lock"
	gocronlock "github.com/anylock/lock/adapters/gocron"
	_ "github.com/anylock/lock/memory"
)

// Every process does this with the same URL. Each fire runs in one of them.
func ExampleNewLocker() {
	done := make(chan struct{})
	report := func() { fmt.Println("report"); close(done) }

	locks, err := lock.Open(context.Background(), "memory:", lock.WithPrefix("cron/"))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.NewLocker(locks, 30*time.Second)))
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Shutdown()
	_, err = scheduler.NewJob(gocron.DurationJob(5*time.Minute), gocron.NewTask(report),
		gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartImmediately()))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()

	<-done
	// Output: report
}

// Every process does this with the same URL. One of them runs all jobs.
func ExampleNewElector() {
	done := make(chan struct{})
	report := sync.OnceFunc(func() { fmt.Println("report"); close(done) })

	locks, err := lock.Open(context.Background(), "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	elector := gocronlock.NewElector(locks, "cron/leader")
	defer elector.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Shutdown() // first of the three, so that no job runs on beside the next leader's
	if _, err = scheduler.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(report)); err != nil {
		log.Fatal(err)
	}
	scheduler.Start()

	<-done
	// Output: report
}
