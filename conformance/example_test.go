package conformance_test

import (
	"context"
	"fmt"
	"regexp"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/memory"
)

// Outside go test, Execute runs the suite and returns what it found.
func ExampleExecute() {
	store := memory.NewStore()
	harness := conformance.Harness{
		Open: func(context.Context) (backend.Backend, error) { return store.Client(), nil },
	}
	results, err := conformance.Execute(context.Background(), harness,
		conformance.Options{Run: regexp.MustCompile("^(StaleReleaseSparesNewHolder|FrozenStoreLosesLease)$")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		fmt.Printf("%s %s: %q\n", r.Status, r.Name, r.Output)
	}
	// Output:
	// pass StaleReleaseSparesNewHolder: ""
	// skip FrozenStoreLosesLease: "the harness has no Freeze and Thaw hooks"
}
