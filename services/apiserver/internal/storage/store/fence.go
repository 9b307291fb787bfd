package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// maxSightings bounds the number of remembered leases. A fenced write needs no right to be a
// leader, so any client can name many leases.
const maxSightings = 10_000

// Outcomes of a fenced write, for metrics.
const (
	outcomeFenced  = "fenced"  // committed, with the compare
	outcomeChecked = "checked" // committed; the lease is in another etcd and was read just before
	outcomeRefused = "refused"
)

// sighting is a lease as it was last seen: its mod_revision and its holder.
type sighting struct {
	revision int64
	held     fence.Fence
}

// sightings remembers leases as they were last seen, so that a write need not read its lease first.
// A sighting may be old or wrong: the compare detects that. It would not if etcd was set back and
// used a mod_revision again.
type sightings struct {
	mu      sync.Mutex
	history fabric.History // the history of the sightings; zero until it is known
	seen    map[string]sighting
}

// enter forgets the sightings of any other history.
func (s *sightings) enter(of fabric.History) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.history.IsZero() && s.history != of {
		s.seen = nil
	}
	s.history = of
}

func (s *sightings) get(key string) (sighting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.seen[key]
	return found, ok
}

func (s *sightings) put(key string, seen *sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen == nil {
		delete(s.seen, key)
		return
	}
	if s.seen == nil || len(s.seen) >= maxSightings {
		s.seen = map[string]sighting{}
	}
	s.seen[key] = *seen
}

// renew is put for a lease that is already remembered: most leases fence nothing.
func (s *sightings) renew(key string, seen sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.seen[key]; ok {
		s.seen[key] = seen
	}
}

// guard is the additional compare in the transaction of a fenced write: the lease must be at the
// mod_revision at which it was seen held in the fence's term.
type guard struct {
	home     *Store // the store that holds leases
	fence    fence.Fence
	kind     *scheme.Kind
	key      string
	revision int64
}

func leaseKind() schema.GroupVersionKind { return coordinationv1.SchemeGroupVersion.WithKind("Lease") }

// shareLeases tells each store which one holds leases, and warns where writes cannot be fenced.
func (s *Store) shareLeases() {
	home := s
	if kind := s.table.Kind(leaseKind()); kind != nil {
		home = s.Of(kind)
	}
	for _, one := range s.Clusters() {
		one.leases = home
		if one != home && !s.onlyEvents(one) {
			s.logger.Warn("leases are in another etcd than what leaders write: writes there are checked against the lease, not fenced",
				"leases", home.Cluster(), "writes", one.Cluster())
		}
	}
}

// onlyEvents reports whether a cluster holds only events, which leaders write without a fence.
func (s *Store) onlyEvents(one *Store) bool {
	if one == s {
		return false
	}
	for kind, in := range s.others {
		if in == one && kind.Kind != "Event" {
			return false
		}
	}
	return true
}

// CheckFence checks that the lease of ctx's fence is held as the fence says. It returns nil if so,
// or if ctx has no fence, else fence.Lost. It serves operations that write nothing, such as a dry
// run, and lets callers refuse early. If now is set it reads the lease from etcd; otherwise a
// sighting is enough.
func (s *Store) CheckFence(ctx context.Context, now bool) error {
	g, err := s.guard(ctx)
	if g == nil || err != nil || !now {
		return err
	}
	return g.look(ctx)
}

// guard returns the guard for a write with ctx; nil if ctx has no fence. It returns fence.Lost if
// another process holds the lease, or if the lease is gone.
func (s *Store) guard(ctx context.Context) (*guard, error) {
	f, ok := fence.From(ctx)
	if !ok {
		return nil, nil
	}
	kind := s.table.Kind(leaseKind())
	if kind == nil {
		return nil, apierrors.NewBadRequest("leases are not served here, so writes cannot be fenced")
	}
	key, err := s.leases.key(kind, f.Namespace, f.Name)
	if err != nil {
		return nil, err
	}
	g := &guard{home: s.leases, fence: f, kind: kind, key: key}
	if seen, ok := s.leases.sightings.get(key); ok && seen.held == f {
		g.revision = seen.revision
		return g, nil
	}
	return g, g.look(ctx)
}

// look reads the lease from etcd.
func (g *guard) look(ctx context.Context) error {
	kv, err := g.home.get(ctx, g.kind, g.key)
	if err != nil {
		return fmt.Errorf("reading the lease of a fence: %w", err)
	}
	return g.saw(kv)
}

// saw records the lease as etcd has it; kv is nil if there is none. It returns fence.Lost if the
// lease is not held as the fence says.
func (g *guard) saw(kv *mvccpb.KeyValue) error {
	if kv == nil {
		g.home.sightings.put(g.key, nil)
		return fence.Lost(g.fence, nil)
	}
	obj, err := g.home.decode(g.kind, kv)
	if err != nil {
		return err
	}
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("reading the lease of a fence: etcd holds a %T", obj))
	}
	seen := sighting{revision: kv.ModRevision, held: fence.Of(lease)}
	g.home.sightings.put(g.key, &seen)
	if seen.held != g.fence {
		return fence.Lost(g.fence, &seen.held)
	}
	g.revision = seen.revision
	return nil
}

// fenced performs a write like transact, on condition that the lease of ctx's fence is held as the
// fence says at that very moment. The holder renews the lease continually, which changes its
// mod_revision; fenced then retries the write with the new one.
func (s *Store) fenced(ctx context.Context, w write) (*clientv3.TxnResponse, error) {
	g, err := s.guard(ctx)
	if err != nil || g == nil {
		if err != nil {
			s.metrics.fence(w.kind, err)
			return nil, err
		}
		return s.transact(ctx, w, nil)
	}
	resp, err := s.guarded(ctx, w, g)
	if err != nil {
		s.metrics.fence(w.kind, err)
		return nil, err
	}
	if resp.Succeeded {
		outcome := outcomeFenced
		if g.home != s {
			outcome = outcomeChecked
		}
		s.metrics.fences.WithLabelValues(w.kind.Group, w.kind.Resource, outcome).Inc()
	}
	return resp, nil
}

func (s *Store) guarded(ctx context.Context, w write, g *guard) (*clientv3.TxnResponse, error) {
	if g.home != s {
		// No transaction spans two clusters. Reading the lease just before is the best that is
		// possible.
		if err := g.look(ctx); err != nil {
			return nil, err
		}
		return s.transact(ctx, w, nil)
	}
	for {
		resp, err := s.transact(ctx, w, g)
		if err != nil || resp.Succeeded {
			return resp, err
		}
		seen := g.revision
		if err := g.saw(etcd.Answered(resp, 1)); err != nil {
			return nil, err
		}
		if revisionOf(found(resp)) != w.based {
			return resp, nil // Another writer was faster, whatever the state of the lease.
		}
		if g.revision == seen {
			return nil, apierrors.NewInternalError(errors.New("etcd refused a transaction although all its compares hold"))
		}
	}
}

// found returns the key that a failed transaction tried to write; nil if it is gone.
func found(resp *clientv3.TxnResponse) *mvccpb.KeyValue { return etcd.Answered(resp, 0) }

// revisionOf returns the mod_revision of a key; 0 if the key does not exist.
func revisionOf(kv *mvccpb.KeyValue) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRevision
}
