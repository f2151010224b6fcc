package otel_test

import (
	"context"
	"log"
	"strings"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/memory"
	"github.com/anylock/lock/otel"
)

// One Tracer reports what all Lockers do to the global providers. The attribute lock.key is the first part of a key.
func Example() {
	tracer, err := otel.New(otel.WithKey(func(key string) string {
		kind, _, _ := strings.Cut(key, "/")
		return kind
	}))
	if err != nil {
		log.Fatal(err)
	}
	locks, err := lock.Open(context.Background(), "memory:", lock.WithTracer(tracer))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "invoice/42", func(ctx context.Context, l *lock.Lease) error {
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
}
