package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/chaos/history"
	"github.com/garboard/garboard/test/chaos/load"
	"github.com/garboard/garboard/test/chaos/plane"
	"github.com/garboard/garboard/test/chaos/record"
)

const (
	apiservers = 2
	writeRate  = 60 // per second
	// Number of processes of informers, with the number of informers and connections of each.
	processes, informersEach, connectionsEach = 2, 24, 4
	// repairLimit bounds the time until informers equal etcd after a fault. They fall back to HTTP
	// after 30 s, and return after 10 s more.
	repairLimit = 2 * time.Minute
	equalPause  = 5 * time.Millisecond
	// natsSettings make a NATS server give up slow clients soon.
	natsSettings = "write_deadline: \"2s\"\nmax_pending: 4MB"
)

// stage is a plane with a load and informers, whose whole history is checked.
type stage struct {
	plane   *plane.Plane
	load    *load.Load
	checker *history.Checker
	table   *scheme.Table
	random  *rand.Rand
	long    bool
	dir     string

	stopLoad, stopRecorder func() error
	dumps                  chan record.Event
}

// newStage starts everything and returns when the informers equal etcd.
func newStage(ctx context.Context, binaries plane.Binaries, dir string, nats int, random *rand.Rand, long bool) (*stage, error) {
	s := &stage{
		checker: history.NewChecker(), table: scheme.New(), random: random, long: long, dir: dir, dumps: make(chan record.Event, 10_000),
		stopLoad: func() error { return nil }, stopRecorder: func() error { return nil },
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return s, err
	}
	var err error
	s.plane, err = plane.Start(ctx, plane.Config{
		Binaries: binaries, Dir: dir, NATS: nats, Apiservers: apiservers, Random: rand.New(rand.NewPCG(random.Uint64(), 3)),
		OnEvent: s.onEvent, NATSSettings: natsSettings,
	})
	if err != nil {
		return s, err
	}
	s.record(ctx)
	if s.load, err = load.New(s.plane.Configs(), s.plane.Client(), s.table, random.Uint64(), writeRate); err != nil {
		return s, err
	}
	if err := s.load.Prepare(ctx); err != nil {
		return s, err
	}
	for i := range processes {
		if _, err := s.plane.Watch(ctx, fmt.Sprintf("watcher-%d", i), informersEach, connectionsEach); err != nil {
			return s, err
		}
	}
	s.stopLoad = background(ctx, s.load.Run)
	return s, s.begun(ctx, processes*informersEach)
}

// onEvent processes an event that an informer reports.
func (s *stage) onEvent(e record.Event) {
	if e.What == record.Content {
		s.dumps <- e
		return
	}
	s.checker.Handle(e)
}

// record starts to record a life of etcd.
func (s *stage) record(ctx context.Context) {
	s.stopRecorder = background(ctx, history.NewRecorder(s.plane.Client(), s.table, s.checker, load.Kinds(s.table)).Run)
}

// background runs a function until stop is called, which returns its error.
func background(ctx context.Context, run func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return sync.OnceValue(func() error { cancel(); return <-done })
}

// close ends everything.
func (s *stage) close() error {
	err := errors.Join(s.stopLoad(), s.stopRecorder())
	if s.plane != nil {
		s.plane.Close()
	}
	return err
}

// begun waits until informers have started, and equal etcd.
func (s *stage) begun(ctx context.Context, informers int) error {
	if err := until(ctx, repairLimit, func() error {
		if _, count := s.checker.Behind(0); s.checker.Informers() < informers {
			return fmt.Errorf("%d of %d informers have started, %d are behind", s.checker.Informers(), informers, count)
		}
		return nil
	}); err != nil {
		return err
	}
	s.load.Pause()
	defer s.load.Resume()
	return s.equal(ctx)
}

// equal waits until handlers have seen exactly what etcd holds. Nothing may be written meanwhile.
func (s *stage) equal(ctx context.Context) error {
	if err := s.recorded(ctx); err != nil {
		return err
	}
	return until(ctx, repairLimit, func() error {
		if err := s.plane.Died(); err != nil {
			return err
		}
		if names, count := s.checker.Behind(5); count > 0 {
			return fmt.Errorf("%d informers differ from etcd: %s", count, strings.Join(names, "; "))
		}
		return nil
	})
}

// recorded waits until everything that etcd holds is recorded.
func (s *stage) recorded(ctx context.Context) error {
	revision, err := s.plane.Etcd.Revision(ctx)
	if err != nil {
		return err
	}
	return until(ctx, repairLimit, func() error {
		if through := s.checker.Through(); through < revision {
			return fmt.Errorf("etcd's record is at %d, etcd at %d", through, revision)
		}
		return nil
	})
}

// verify compares the stores of all informers with etcd, including the objects' whole content.
func (s *stage) verify(ctx context.Context) error {
	s.load.Pause()
	defer s.load.Resume()
	if err := s.equal(ctx); err != nil {
		return err
	}
	truth := map[string]record.Object{}
	var faults []error
	if err := s.load.EachStored(ctx, func(resource, key string, obj scheme.Object) {
		hash, err := record.HashOf(obj)
		faults = append(faults, err)
		truth[resource+" "+key] = record.Object{Key: key, Hash: hash}
	}); err != nil || errors.Join(faults...) != nil {
		return errors.Join(append(faults, err)...)
	}
	for _, w := range s.plane.Watchers {
		if err := w.Dump(); err != nil {
			return err
		}
		for range w.Informers {
			select {
			case e := <-s.dumps:
				s.checker.End(e, func(resource, key string) (record.Object, bool) {
					o, ok := truth[resource+" "+key]
					return o, ok
				})
			case <-time.After(repairLimit):
				return fmt.Errorf("%s does not report the content of its informers", w.Name)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// until retries until there is no error, for at most limit.
func until(ctx context.Context, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", limit, err)
		case <-time.After(equalPause):
		}
	}
}

// lasting returns how long a fault lasts, in the short or the long form of the test.
func (s *stage) lasting(short, long time.Duration) time.Duration {
	if s.long {
		return long
	}
	return short
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (s *stage) file(name string) string { return filepath.Join(s.dir, name) }
