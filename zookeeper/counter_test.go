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
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// restartWithCounter restarts s with another child counter in each of the nodes dirs. It edits the newest snapshot,
// which a server reads when it starts.
func restartWithCounter(t *testing.T, s *servers.Server, counter int32, dirs ...string) {
	t.Helper()
	if s.Dir == "" {
		t.Skip("the server's files are in a container")
	}
	s.Kill()
	s.Start() // writes a snapshot of everything that it has read from its log
	s.Kill()
	files, err := filepath.Glob(filepath.Join(s.Dir, "version-2", "snapshot.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	newest := slices.MaxFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // each name ends with a zxid in hexadecimal digits
	})
	data, err := os.ReadFile(newest)
	for _, dir := range dirs {
		if err == nil {
			err = setCounter(data, dir, counter)
		}
	}
	if err == nil {
		err = os.WriteFile(newest, data, 0o600)
	}
	if err != nil {
		t.Fatalf("%s: %v", newest, err)
	}
	s.Start()
}

// setCounter sets the child counter of the node dir in a snapshot of a server without digests. A node consists of its
// path, its data, the number of its ACL, and its stat. In the stat, the counter follows czxid, mzxid, ctime, mtime and
// version. The snapshot ends with the checksum of everything before it, and "/".
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

// If the counter of a key's container is near its limit, leases still exclude each other as their modes require, and
// tokens increase. Later the key has a new container, whose numbers are low.
func TestCounterAtItsLimit(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, untidy, "-Dzookeeper.digest.enabled=false")
	for _, counter := range []int32{lastNumber - 2, math.MaxInt32 - 7, math.MaxInt32} {
		t.Run(fmt.Sprint(counter), func(t *testing.T) {
			if counter != math.MaxInt32-7 {
				storetest.Long(t, "a restart each")
			}
			stores := make([]*Backend, 8)
			stores[0] = opened(t, "zookeeper://"+s.Addr)
			keys := map[string]func() bool{ // by key: whether the next request is shared; nil for readersAtTheLimit
				"exclusive": func() bool { return false },
				"mixed":     func() bool { return rand.N(3) > 0 },
				"readers":   nil,
			}
			last := make(map[string]uint64)
			for key := range keys {
				key = fmt.Sprint(key, counter)
				l := acquire(t, stores[0], req(key, time.Minute))
				last[key] = l.Token()
				release(t, l)
			}
			var dirs []string
			for key := range last {
				dirs = append(dirs, stores[0].dir(key))
			}
			restartWithCounter(t, s, counter, dirs...)
			for i := range stores {
				stores[i] = opened(t, "zookeeper://"+s.Addr)
			}
			for key, isShared := range keys {
				key = fmt.Sprint(key, counter)
				if isShared == nil {
					readersAtTheLimit(t, stores[0], stores[1], key, last[key])
					continue
				}
				c := &crowd{writer: last[key]}
				c.contend(t, stores, key, 40, isShared)
				t.Logf("%s: up to %d readers at once", key, c.most)
			}
			for key := range last {
				l := acquire(t, stores[0], req(key, time.Minute))
				if q := places(t, raw(t, s.Addr), stores[0], key); len(q) != 1 || q[0].number > 1000 || !q[0].isOrdered() {
					t.Errorf("places %+v, want one of a new container", q)
				}
				release(t, l)
			}
		})
	}
}

// readersAtTheLimit checks that readers hold the key together, and that nobody overtakes a waiting writer, when the
// numbers of the key's container run out. last is the latest token.
func readersAtTheLimit(t *testing.T, b, other *Backend, key string, last uint64) {
	t.Helper()
	readers := []backend.Lease{
		acquire(t, b, asReader(req(key, time.Minute))), acquire(t, other, asReader(waiting(key, time.Minute))),
	}
	_, err := b.Acquire(t.Context(), req(key, time.Minute))
	heldBy(t, "a writer beside readers", err, 2, 0)
	granted := make(chan storetest.Outcome, 4)
	wait := func(b *Backend, r backend.Request) {
		l, err := b.Acquire(context.Background(), r)
		granted <- storetest.Outcome{Lease: l, Err: err}
	}
	for i := range 3 {
		go wait(b, waiting(key, time.Minute))
		storetest.Queued(t, b, key, i+1)
	}
	_, err = other.Acquire(t.Context(), asReader(req(key, time.Minute)))
	heldBy(t, "a reader that would pass writers", err, 2, 3)
	go wait(other, asReader(waiting(key, time.Minute)))
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if h.Token == readers[1].Token() { // the writers watch this node; after its release, each waits for one node
		slices.Reverse(readers)
	}
	for _, l := range readers {
		last = max(last, l.Token())
		select {
		case o := <-granted:
			t.Fatalf("granted beside readers or past a writer: %+v", o)
		case <-time.After(50 * time.Millisecond):
		}
		release(t, l)
	}
	for range cap(granted) { // in any order
		select {
		case o := <-granted:
			if o.Err != nil || o.Lease.Token() <= last {
				t.Fatalf("%+v after token %d", o, last)
			}
			last = o.Lease.Token()
			select {
			case other := <-granted:
				t.Fatalf("%+v beside %+v", other, o)
			case <-time.After(50 * time.Millisecond):
			}
			release(t, o.Lease)
		case <-time.After(wakeUp):
			t.Fatal("nobody is granted the key")
		}
	}
}
