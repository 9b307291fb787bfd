package store

import (
	"context"
	"sync"

	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// Identity returns the name of this process in elections.
func (s *Store) Identity() string { return s.identity }

// Status reports the state of the store's own cluster, and the leader of an election as its
// publisher. It takes a few seconds at most, and reports the members that do not answer.
func (s *Store) Status(ctx context.Context, election string) report.Etcd {
	var publisher string
	var together sync.WaitGroup
	together.Go(func() {
		if leader, ok := s.leader(ctx, electionPrefix+s.prefix+election+"/"); ok {
			publisher = leader.candidate
		}
	})
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
