package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLeaseSharing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var granted []int64
		refused := errors.New("refused")
		var fail error
		l := NewLeases(nil, time.Hour)
		l.grant = func(_ context.Context, seconds int64) (clientv3.LeaseID, error) {
			if fail != nil {
				return 0, fail
			}
			granted = append(granted, seconds)
			return clientv3.LeaseID(len(granted)), nil
		}
		take := func(want clientv3.LeaseID) {
			t.Helper()
			if got, err := l.Lease(t.Context()); err != nil || got != want {
				t.Fatalf("lease %d, %v; want %d", got, err, want)
			}
		}
		take(1)
		time.Sleep(59 * time.Second)
		take(1)
		time.Sleep(time.Second)
		take(2) // another minute
		for range leaseObjects - 1 {
			take(2)
		}
		take(3) // the second lease has 1000 objects
		l.Forget()
		fail = refused
		if _, err := l.Lease(t.Context()); !errors.Is(err, refused) {
			t.Errorf("a refused grant: %v", err)
		}
		fail = nil
		take(4)
		for i, seconds := range granted {
			if seconds != 3660 { // an hour for the last object of the minute
				t.Errorf("lease %d is of %d s, want 3660", i+1, seconds)
			}
		}
	})
}
