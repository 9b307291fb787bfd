package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/test/chaos/proxy"
)

// raise is the number by which the documented restore raises etcd's revisions.
const raise = 1_000_000

// settle is how long writes continue after a restore, before informers must equal etcd.
const settle = 2 * time.Second

// etcdCompacted makes NATS unreachable for all processes while objects change, and compacts etcd,
// so that the apiservers that then start cannot read these changes.
func etcdCompacted(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	ways := s.outside()
	for _, a := range s.plane.Apiservers {
		ways = append(ways, a.Proxies...)
	}
	each(ways, (*proxy.Proxy).Cut)
	wait(ctx, s.lasting(2*time.Second, 5*time.Second))
	s.load.Pause()
	defer s.load.Resume()
	if err := s.recorded(ctx); err != nil {
		return time.Time{}, err
	}
	revision, err := s.plane.Etcd.Revision(ctx)
	if err == nil {
		_, err = s.plane.Client().Compact(ctx, revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("compacting etcd: %w", err)
	}
	for _, a := range s.plane.Apiservers {
		a.Kill()
	}
	each(ways, (*proxy.Proxy).Heal)
	err = s.startApiservers(ctx)
	return time.Now(), err
}

// witnessed waits until the log has everything that was published. Nothing may be written
// meanwhile.
func (s *stage) witnessed(ctx context.Context) error {
	leader, err := s.plane.Leader(ctx)
	if err != nil {
		return err
	}
	// The metric is updated with the progress.
	wait(ctx, settle)
	return leader.Logged(ctx)
}

func (s *stage) startApiservers(ctx context.Context) error {
	for _, a := range s.plane.Apiservers {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restored describes how etcd is restored from a snapshot.
type restored struct {
	// raise is the number by which revisions are raised, which is the documented procedure.
	raise int
	// newer raises etcd's revision beyond its earlier one before the apiservers start.
	newer bool
	// alive keeps the apiservers running throughout.
	alive bool
}

func restoredRaised(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	return s.restore(ctx, restored{raise: raise})
}

func restoredOlder(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	return s.restore(ctx, restored{alive: true})
}

func restoredNewer(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	return s.restore(ctx, restored{newer: true})
}

// restore takes a snapshot, lets more changes happen, and then restores the snapshot.
func (s *stage) restore(ctx context.Context, how restored) (time.Time, error) {
	file := s.file("snapshot")
	if err := s.plane.Etcd.Snapshot(ctx, file); err != nil {
		return time.Time{}, err
	}
	wait(ctx, s.lasting(2*time.Second, 6*time.Second))
	over, err := s.replaceEtcd(ctx, file, how)
	if err != nil {
		return time.Time{}, err
	}
	wait(ctx, settle)
	return over, nil
}

func (s *stage) replaceEtcd(ctx context.Context, file string, how restored) (time.Time, error) {
	s.load.Pause()
	defer s.load.Resume()
	if err := s.recorded(ctx); err != nil {
		return time.Time{}, err
	}
	before, err := s.plane.Etcd.Revision(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if how.newer {
		// The log is the only evidence of etcd's earlier state; a replica that was down at that
		// time does not have it.
		if err := s.witnessed(ctx); err != nil {
			return time.Time{}, err
		}
	}
	if !how.alive {
		for _, a := range s.plane.Apiservers {
			a.Kill()
		}
	}
	if err := s.stopRecorder(); err != nil {
		return time.Time{}, err
	}
	s.plane.Etcd.Kill()
	s.checker.NewLife(how.raise > 0)
	if err := s.plane.Etcd.Restore(ctx, file, how.raise); err != nil {
		return time.Time{}, err
	}
	if err := s.plane.Etcd.Restart(ctx); err != nil {
		return time.Time{}, err
	}
	began, err := s.plane.Etcd.Revision(ctx)
	if err != nil {
		return time.Time{}, err
	}
	s.checker.Restored(began)
	s.record(context.WithoutCancel(ctx))
	if how.newer {
		if err := s.load.RaiseTo(ctx, before+20); err != nil {
			return time.Time{}, err
		}
	}
	if err := s.recorded(ctx); err != nil {
		return time.Time{}, err
	}
	if !how.alive {
		if err := s.startApiservers(ctx); err != nil {
			return time.Time{}, err
		}
	}
	return time.Now(), nil
}
