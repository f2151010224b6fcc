package certmagiclock_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/anylock/lock"
	certmagiclock "github.com/anylock/lock/adapters/certmagic"
	_ "github.com/anylock/lock/file"
)

// Certificates are in a folder that all instances share, and locks in a store of their own.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	locks, err := lock.Open(ctx, "file://"+dir+"/locks", lock.WithPrefix("certmagic/"))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	certmagic.Default.Storage = certmagiclock.New(&certmagic.FileStorage{Path: dir + "/certificates"}, locks)
	// Continue with certmagic.HTTPS or certmagic.NewDefault as before.

	if err := certmagic.Default.Storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("nobody else obtains the certificate")
	if err := certmagic.Default.Storage.Unlock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	// Output: nobody else obtains the certificate
}
