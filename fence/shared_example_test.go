package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	_ "github.com/anylock/lock/memory" // the scheme memory:
)

// A reader and a writer are paused until their leases have ended. The document refuses both when they continue.
func ExampleGuard_DoShared() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	var guard fence.Guard // of the document
	text := "one two"
	read := func(l *lock.Lease) {
		err := guard.DoShared(l.Token(), func() error { fmt.Println("read:", text); return nil })
		if err != nil {
			fmt.Println("reader refused:", errors.Is(err, fence.ErrStale))
		}
	}
	write := func(l *lock.Lease, s string) {
		err := guard.Do(l.Token(), func() error { text = s; fmt.Println("written:", s); return nil })
		if err != nil {
			fmt.Println("writer refused:", errors.Is(err, fence.ErrStale))
		}
	}
	acquire := func(opts ...lock.AcquireOption) *lock.Lease {
		l, err := locks.Acquire(ctx, "document", opts...)
		if err != nil {
			log.Fatal(err)
		}
		return l
	}
	end := func(l *lock.Lease) { // as if the holder were paused for longer than its TTL
		if err := locks.Ops().Break(ctx, l.Key(), l.Owner()); err != nil {
			log.Fatal(err)
		}
	}

	first, second := acquire(lock.Shared()), acquire(lock.Shared())
	read(second)
	read(first) // its token is lower, but readers do not exclude each other
	end(first)
	end(second)

	writer := acquire()
	write(writer, "three four")
	read(first) // a stale reader would mix the old text with the new one
	end(writer)

	read(acquire(lock.Shared()))
	write(writer, "five") // a stale writer would change what the reader relies on
	// Output:
	// read: one two
	// read: one two
	// written: three four
	// reader refused: true
	// read: three four
	// writer refused: true
}

// docs/fencing.md shows the code and the output of the example.
func TestPageShowsExample(t *testing.T) {
	file, err := os.ReadFile("shared_example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(file), "func ExampleGuard_DoShared() {\n")
	body, output, _ := strings.Cut(example, "\t// Output:\n")
	output, _, _ = strings.Cut(output, "}\n")
	output = strings.ReplaceAll(output, "\t// ", "")
	if body == "" || !strings.Contains(string(page), "func main() {\n"+body+"}\n```\n") {
		t.Error("the page shows another program")
	}
	if output == "" || !strings.Contains(string(page), "```text\n"+output+"```\n") {
		t.Error("the page shows another output")
	}
}
