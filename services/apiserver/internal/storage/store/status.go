package store

import (
	"context"
	"sync"

	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/storage/election"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// Identity returns the name of this process in elections.
func (s *Store) Identity() string { return s.elect.Identity() }

// Status reports the state of the store's own cluster, and the leader of the election with a name
// as its publisher. It takes a few seconds at most, and reports the members that do not answer.
func (s *Store) Status(ctx context.Context, name string) report.Etcd {
	var publisher string
	var together sync.WaitGroup
	together.Go(func() { publisher = s.elect.Leader(ctx, name) })
	found := s.etcd.Status(ctx)
	together.Wait()
	found.Name, found.Publisher = s.cluster, publisher
	if found.Name == "" {
		found.Name = snapshot.Main
	}
	return found
}

// Snapshot begins a copy of the store's own cluster.
func (s *Store) Snapshot(ctx context.Context) (*etcd.Snapshot, error) { return s.etcd.Snapshot(ctx) }

// Campaign calls lead whenever this process leads an election in the store's own cluster, until ctx
// ends; see election.Elections.
func (s *Store) Campaign(ctx context.Context, e election.Election, lead func(ctx context.Context) error) error {
	return s.elect.Campaign(ctx, e, lead)
}
