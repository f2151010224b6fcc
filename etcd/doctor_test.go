package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestDoctorWellConfigured(t *testing.T) {
	storetest.Long(t, "the current release of etcd")
	t.Parallel()
	storetest.Healthy(t, opened(t, "etcd://"+servers.EtcdCurrent(t).Addr))
}

// Examine of the installed release finds at most that its version is old.
func TestDoctorInstalled(t *testing.T) {
	t.Parallel()
	for _, f := range storetest.Examined(t, opened(t, shared(t).URL())) {
		if f.Code != "old-version" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorOldVersion(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t)
	c := raw(t, s.Addr)
	status, err := c.Status(t.Context(), s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if len(flawsOf(status.Version)) == 0 {
		t.Skipf("etcd %s has no flaws that are known", status.Version)
	}
	storetest.Finds(t, opened(t, "etcd://"+s.Addr), "old-version")
}

func TestDoctorElectionTimeout(t *testing.T) {
	t.Parallel()
	s := private(t, "--heartbeat-interval", "500", "--election-timeout", "5000")
	storetest.Finds(t, opened(t, s.URL()), "long-election-timeout")
}

func TestDoctorNoSpace(t *testing.T) {
	t.Parallel()
	s := private(t, "--quota-backend-bytes", "2000000")
	b := opened(t, s.URL())
	fill(t, raw(t, s.Addr))
	storetest.Finds(t, b, "no-space")
}

// fill writes until the quota is used up.
func fill(t *testing.T, c *clientv3.Client) {
	t.Helper()
	for i := 0; ; i++ {
		_, err := c.Put(t.Context(), fmt.Sprint("filler-", i), strings.Repeat("x", 100_000))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil && (t.Context().Err() != nil || i > 1000) {
			t.Fatal(err)
		}
	}
}

// If the quota is used up, a request fails at once, also if it needs a new etcd lease: no repetition can succeed.
func TestNoSpaceFailsAtOnce(t *testing.T) {
	t.Parallel()
	s := private(t, "--quota-backend-bytes", "2000000")
	c := raw(t, s.Addr)
	b := onOwnClient(t, c, &Options{Namespace: s.namespace, Timeout: time.Minute})
	fill(t, c)
	begun := time.Now()
	if _, err := b.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) {
		t.Errorf("acquire: %v", err)
	}
	if took := time.Since(begun); took > b.options.Timeout/2 {
		t.Errorf("took %v", took)
	}
}

func TestDoctorQuotaNearlyFull(t *testing.T) {
	storetest.Long(t, "the current release of etcd")
	t.Parallel()
	const quota = 80_000_000 // the database may grow by some megabytes at once
	s := servers.EtcdCurrent(t, "--quota-backend-bytes", strconv.Itoa(quota))
	c := raw(t, s.Addr)
	until(t, 12*soon, "the database is nearly full", func() bool {
		// Each Put waits for the disk, which may take 100 ms, so a few large values fill the database.
		if _, err := c.Put(t.Context(), "filler", strings.Repeat("x", 500_000)); err != nil {
			t.Fatal(err)
		}
		// Hashing writes the database to disk, so that its size is known.
		if _, err := c.HashKV(t.Context(), s.Addr, 0); err != nil {
			t.Fatal(err)
		}
		status, err := c.Status(t.Context(), s.Addr)
		return err == nil && status.DbSize > quota*9/10
	})
	storetest.Finds(t, opened(t, "etcd://"+s.Addr), "quota-nearly-full")
}

// A server whose quota is disabled is never reported as nearly full.
func TestDoctorNoQuota(t *testing.T) {
	storetest.Long(t, "the current release of etcd")
	t.Parallel()
	storetest.Healthy(t, opened(t, "etcd://"+servers.EtcdCurrent(t, "--quota-backend-bytes=-1").Addr))
}

func TestDoctorCorrupt(t *testing.T) {
	t.Parallel()
	s := private(t)
	b := opened(t, s.URL())
	c := raw(t, s.Addr)
	members, err := c.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: members.Members[0].ID, Alarm: pb.AlarmType_CORRUPT,
	}); err != nil {
		t.Fatal(err)
	}
	storetest.Finds(t, b, "corrupt")
}

func TestDoctorNoCompaction(t *testing.T) {
	storetest.Long(t, "tens of thousands of writes")
	t.Parallel()
	s := private(t)
	b := opened(t, s.URL())
	c := raw(t, s.Addr)
	var writers sync.WaitGroup
	const writersCount = 100
	for range writersCount {
		writers.Go(func() {
			for range uncompactedMost/writersCount + 1 {
				if _, err := c.Put(context.Background(), "k", ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	storetest.Finds(t, b, "no-compaction")
	if _, err := c.Compact(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	for _, f := range storetest.Examined(t, b) {
		if f.Code == "no-compaction" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorUnreachable(t *testing.T) {
	t.Parallel()
	storetest.Finds(t, opened(t, "etcd://"+shared(t).Addr+",127.0.0.1:1"), "unreachable")
}
