package kubernetes_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/anylock/lock"
	"github.com/anylock/lock/adapters/kubernetes"
	_ "github.com/anylock/lock/memory"
)

// The elector of client-go leads by a lease. If the lease is lost, cancel ends the election and the leader's context.
func Example() {
	locks, err := lock.Open(context.Background(), "memory:") // a store that all candidates share
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	l, err := kubernetes.New(locks, "scheduler", "pod-1", cancel)
	if err != nil {
		log.Fatal(err)
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            l,
		LeaseDuration:   15 * time.Second, // the TTL of the lease
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer cancel(nil) // the work is done: step down
				if lease := l.Lease(); lease != nil {
					fmt.Println("leading, with a token:", lease.Token() > 0)
				}
			},
			OnStoppedLeading: func() { fmt.Println("stopped") },
		},
	})
	// Output:
	// leading, with a token: true
	// stopped
}
