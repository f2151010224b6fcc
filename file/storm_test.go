package file_test

import "github.com/anylock/lock/file"

func storm(b *file.Backend) {}
