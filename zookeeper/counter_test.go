package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// restartWithCounter restarts s with another counter of children in the node dir: it edits the newest snapshot, from
// which a server starts.
func restartWithCounter(t *testing.T, s *servers.Server, dir string, counter int32) {
	t.Helper()
	if s.Dir == "" {
		t.Skip("the server's files are in a container")
	}
	s.Kill()
	s.Start() // which writes a snapshot of all that it has read from its log
	s.Kill()
	files, err := filepath.Glob(filepath.Join(s.Dir, "version-2", "snapshot.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	newest := slices.MaxFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // the end is a zxid in hexadecimal digits
	})
	data, err := os.ReadFile(newest)
	if err == nil {
		err = setCounter(data, dir, counter)
	}
	if err == nil {
		err = os.WriteFile(newest, data, 0o600)
	}
	if err != nil {
		t.Fatalf("%s: %v", newest, err)
	}
	s.Start()
}

// setCounter edits a snapshot of a server without digests. The node is its path, its data, the number of its ACL and
// its stat, in which the counter follows czxid, mzxid, ctime, mtime and version. At the end are the checksum of all
// before it, and "/".
func setCounter(snapshot []byte, dir string, counter int32) error {
	const seal = 8 + 4 + 1
	sum := len(snapshot) - seal
	if sum < 0 || binary.BigEndian.Uint64(snapshot[sum:]) != uint64(adler32.Checksum(snapshot[:sum])) {
		return errors.New("the checksum is not where it should be")
	}
	name := append(binary.BigEndian.AppendUint32(nil, uint32(len(dir))), dir...)
	at := bytes.Index(snapshot, name)
	if at < 0 {
		return fmt.Errorf("no node %s", dir)
	}
	at += len(name)
	if n := int32(binary.BigEndian.Uint32(snapshot[at:])); n > 0 {
		at += int(n)
	}
	at += 4 + 8 + 4*8 + 4
	binary.BigEndian.PutUint32(snapshot[at:], uint32(counter))
	binary.BigEndian.PutUint64(snapshot[sum:], uint64(adler32.Checksum(snapshot[:sum])))
	return nil
}

// The leases of a key exclude each other, and their tokens increase, when the counter of its container is near its
// limit.
func TestCounterAtItsLimit(t *testing.T) {
	t.Parallel()
	const (
		clients = 8
		grants  = 40 // of each client
	)
	s := servers.ZooKeeper(t, untidy, "-Dzookeeper.digest.enabled=false")
	for _, counter := range []int32{lastNumber - 20, math.MaxInt32 - 7, math.MaxInt32} {
		t.Run(fmt.Sprint(counter), func(t *testing.T) {
			if counter != math.MaxInt32-7 {
				storetest.Long(t, "a restart each")
			}
			key := fmt.Sprint("k", counter)
			all := make([]*Backend, clients)
			all[0] = opened(t, "zookeeper://"+s.Addr)
			old := acquire(t, all[0], req(key, time.Minute))
			var last atomic.Uint64
			last.Store(old.Token())
			release(t, old)
			restartWithCounter(t, s, all[0].dir(key), counter)
			for i := range all {
				all[i] = opened(t, "zookeeper://"+s.Addr)
			}
			var holders atomic.Int32
			var overlaps, backwards atomic.Int32
			var group sync.WaitGroup
			for i, b := range all {
				group.Go(func() {
					for n := 0; n < grants && t.Context().Err() == nil; {
						r := backend.Request{Key: key, Owner: backend.NewOwner(), TTL: time.Minute, Wait: i%2 == 0}
						l, err := b.Acquire(t.Context(), r)
						if errors.Is(err, backend.ErrHeld) {
							time.Sleep(time.Millisecond) // sleeps: a pause between attempts
							n++
							continue
						}
						if err != nil {
							t.Errorf("client %d: %v", i, err)
							return
						}
						if holders.Add(1) > 1 {
							overlaps.Add(1)
						}
						if l.Token() <= last.Swap(l.Token()) {
							backwards.Add(1)
						}
						time.Sleep(time.Millisecond) // sleeps: the work under the lock
						holders.Add(-1)
						if err := l.Release(context.Background()); err != nil {
							t.Errorf("client %d: release: %v", i, err)
						}
						n++
					}
				})
			}
			group.Wait()
			if overlaps.Load() > 0 || backwards.Load() > 0 {
				t.Errorf("%d moments with two live leases, %d tokens that went backwards", overlaps.Load(), backwards.Load())
			}
			l := acquire(t, all[0], req(key, time.Minute))
			if q := places(t, raw(t, s.Addr), all[0], key); len(q) != 1 || !isOrdered(q[0].number) || q[0].number > 1000 {
				t.Errorf("places %+v, want one of a new container", q)
			}
			release(t, l)
		})
	}
}
