package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// leaseShare is how long after its creation a lease is assigned to further objects, and
	// leaseObjects the maximum number of objects: ending a lease deletes all its keys in one
	// revision (apiserver, storage/etcd3/lease_manager.go).
	leaseShare   = time.Minute
	leaseObjects = 1000
)

// Leases hands out leases of one TTL, and the same lease for objects that arrive within a
// minute: etcd pays for each lease, not for each key on it.
type Leases struct {
	grant func(ctx context.Context, seconds int64) (clientv3.LeaseID, error)
	ttl   time.Duration

	mu      sync.Mutex
	current clientv3.LeaseID
	until   time.Time
	given   int
}

// NewLeases returns leases on which keys live at least for ttl.
func NewLeases(client *clientv3.Client, ttl time.Duration) *Leases {
	return &Leases{ttl: ttl, grant: func(ctx context.Context, seconds int64) (clientv3.LeaseID, error) {
		resp, err := client.Grant(ctx, seconds)
		if err != nil {
			return 0, fmt.Errorf("granting a lease of %d s: %w", seconds, err)
		}
		return resp.ID, nil
	}}
}

// Lease returns a lease that lasts at least ttl from now.
func (l *Leases) Lease(ctx context.Context) (clientv3.LeaseID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.current != 0 && now.Before(l.until) && l.given < leaseObjects {
		l.given++
		return l.current, nil
	}
	share := min(leaseShare, l.ttl/20)
	id, err := l.grant(ctx, int64((l.ttl+share+time.Second-1)/time.Second))
	if err != nil {
		return 0, err
	}
	l.current, l.until, l.given = id, now.Add(share), 1
	return id, nil
}

// Forget makes the next call of Lease grant a new lease: the shared one is gone.
func (l *Leases) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = 0
}
