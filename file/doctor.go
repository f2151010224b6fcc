package file

import (
	"context"
	"io/fs"
	"os"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A folder describes a store's directory and its file system, for the rules.
type folder struct {
	dir   string
	mode  fs.FileMode
	kind  string // of the file system; empty if the store does not treat it specially
	bytes uint64 // free
	nodes uint64 // free; leastNodes if the file system does not count them
}

const (
	overlayFS  = "overlay"
	leastBytes = 16 << 20 // the bucket files together grow to some megabytes while ten thousand keys are held
	leastNodes = 1000     // there are 256 bucket files, and an inbox for each process
)

var rules = []kit.Rule[folder]{
	{Severity: backend.Critical, Code: "writable-by-all", Found: func(f folder) string {
		return kit.When(f.mode&0o002 != 0, "%s has mode %v", f.dir, f.mode)
	},
		Why: "any user of this machine can end held locks, and acquire any lock",
		Set: "chmod o-w, with a group for the users that share locks"},
	{Severity: backend.Warning, Code: "no-space", Found: func(f folder) string {
		return kit.When(f.bytes < leastBytes || f.nodes < leastNodes, "%d KiB and %d inodes are free", f.bytes>>10, f.nodes)
	},
		Why: "on a full file system new keys are refused, and some leases cannot be renewed",
		Set: "free some space, or use a directory on another file system"},
	{Severity: backend.Info, Code: "container-layer", Found: func(f folder) string {
		return kit.When(f.kind == overlayFS, "%s is on %s", f.dir, f.kind)
	},
		Why: "no other container sees a container's own layer, and neither does the host",
		Set: "a volume, if others share the locks"},
}

// Examine implements backend.Examiner. Open has already refused network file systems.
func (b *Backend) Examine(ctx context.Context) (list []backend.Finding, err error) {
	err = b.leases.Call(ctx, nil, func(context.Context) error {
		info, err := os.Stat(b.store.dir)
		if err != nil {
			return err
		}
		f, err := examineFS(b.store.dir)
		f.mode = info.Mode()
		list = kit.Apply(rules, "", f)
		return err
	})
	return list, err
}
