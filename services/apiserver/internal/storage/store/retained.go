package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// retainedFor is how long the store believes that etcd retains a revision. Compactions are minutes apart.
const retainedFor = time.Second

// retained is a revision at which etcd could be read a moment ago. It could then be read at all later ones.
type retained struct {
	mu       sync.Mutex
	revision int64
	until    time.Time
}

func (r *retained) has(revision int64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until) && revision >= r.revision
}

func (r *retained) put(revision int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revision, r.until = revision, now.Add(retainedFor)
}

// Retains reports whether etcd can still be read at a revision, or could within the last second. It asks
// any member, at little cost. If none answers, the result is false.
func (s *Store) Retains(ctx context.Context, kind *scheme.Kind, revision int64) bool {
	s = s.Of(kind)
	asked := time.Now()
	if s.retained.has(revision, asked) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, etcd.ReadPatience)
	defer cancel()
	_, err := s.client.Get(ctx, s.prefix, clientv3.WithCountOnly(), clientv3.WithSerializable(), clientv3.WithRev(revision))
	if err == nil {
		s.retained.put(revision, asked)
	}
	// A member that lags behind does not know the revision yet.
	return err == nil || errors.Is(err, rpctypes.ErrFutureRev)
}
