// Package consistent reads several informers at the same etcd revision.
//
// Each informer is exact for its own revision, and these revisions differ: a program that reads
// pods and then nodes may see a pod on a node that does not exist yet. A consistent read holds what
// etcd held for each of the views at one revision:
//
//	pods, nodes := consistent.Of(podInformer), consistent.Of(nodeInformer)
//	revision, err := consistent.Take(ctx, 0, pods, nodes)
//	...
//	for _, pod := range pods.Objects() {
package consistent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/garboard/garboard/libs/informer"
)

var (
	// ErrHistories reports that the views belong to different etcd clusters, or to different lives
	// of one. Their revisions cannot be compared.
	ErrHistories = errors.New("the views belong to different histories of etcd")
	// ErrNoHistory reports that a view is followed over HTTP, which does not name the etcd cluster
	// of its revisions.
	ErrNoHistory = errors.New("the etcd history of a view is unknown")
)

// Part is one view of a consistent read. A Part takes part in one read at a time.
type Part interface {
	// begin makes the part look for content; wait waits until the informer has reached revision.
	begin(seek *seek) (stop func(), err error)
	wait(ctx context.Context, revision int64) error
	set(found informer.Stretch, objects []informer.Object)
}

// View is a Part of objects of one type.
type View[T informer.Object] struct {
	informer informer.SharedInformer[T]
	objects  []T
}

// Of returns the part for an informer, which runs or will run.
func Of[T informer.Object](of informer.SharedInformer[T]) *View[T] { return &View[T]{informer: of} }

// Objects returns the objects of the view at the revision of the last Take, in no order. They are
// shared: copy before changing.
func (v *View[T]) Objects() []T { return v.objects }

func (v *View[T]) begin(s *seek) (stop func(), err error) {
	stretches, ok := v.informer.(informer.Stretcher)
	if !ok {
		return nil, fmt.Errorf("reading views consistently: a %T does not report its revisions", v.informer)
	}
	return stretches.Stretches(s.observe), nil
}

func (v *View[T]) wait(ctx context.Context, revision int64) error {
	return v.informer.WaitForRevision(ctx, revision)
}

func (v *View[T]) set(_ informer.Stretch, objects []informer.Object) {
	v.objects = make([]T, 0, len(objects))
	for _, object := range objects {
		if obj, ok := object.(T); ok {
			v.objects = append(v.objects, obj)
		}
	}
}

// Take fills the parts with what etcd held for each of them at one revision, minimum or later, and
// returns that revision. It waits for informers that are behind, and makes them ask for the changes
// they lack. An informer that receives several changes at once does not know the states in between;
// Take then tries another revision, until ctx ends. The views must belong to one etcd cluster.
func Take(ctx context.Context, minimum int64, parts ...Part) (revision int64, err error) {
	if len(parts) == 0 {
		return 0, errors.New("reading views consistently: there are no views")
	}
	// Before every part has synced there is nothing to compare.
	if err := wait(ctx, minimum, parts); err != nil {
		return 0, fmt.Errorf("reading %d views consistently: %w", len(parts), err)
	}
	for {
		revision, done, err := try(ctx, minimum, parts)
		if err != nil {
			return 0, fmt.Errorf("reading %d views consistently: %w", len(parts), err)
		}
		if done {
			return revision, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("reading %d views consistently: found no revision at which all are known: %w",
				len(parts), context.Cause(ctx))
		}
	}
}

// wait waits until each part is at revision.
func wait(ctx context.Context, revision int64, parts []Part) error {
	faults := make([]error, len(parts))
	var waiting sync.WaitGroup
	for i, part := range parts {
		waiting.Go(func() { faults[i] = part.wait(ctx, revision) })
	}
	waiting.Wait()
	return errors.Join(faults...)
}

// seek looks for what a view held at a revision.
type seek struct {
	mu sync.Mutex
	// target is the revision; while it is 0, none is chosen and the latest interval is kept.
	target int64
	found  informer.Stretch
	// objects are what the view held in found.
	objects []informer.Object
	missed  bool
}

// observe receives each interval of the view.
func (s *seek) observe(stretch informer.Stretch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.target != 0 {
		if s.holds() || stretch.Through < s.target {
			return
		}
		if stretch.From > s.target {
			s.missed = true
			return
		}
	}
	if s.objects == nil || stretch.From != s.found.From || stretch.History != s.found.History {
		s.objects = stretch.Objects()
	}
	s.found = stretch
}

// holds reports whether the target is found. The caller holds mu.
func (s *seek) holds() bool { return s.found.From <= s.target && s.target <= s.found.Through }

// through returns how far the view has come.
func (s *seek) through() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found.Through
}

// aim sets the target revision.
func (s *seek) aim(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target, s.missed = revision, s.found.From > revision
}

// common reports whether all seeks have found their target; it returns an error if they do not
// belong to one history.
func common(seeks []*seek) (all bool, err error) {
	history := ""
	all = true
	for i, s := range seeks {
		s.mu.Lock()
		found, missed := s.found, s.missed || !s.holds()
		s.mu.Unlock()
		switch {
		case found.History == "":
			return false, ErrNoHistory
		case i > 0 && found.History != history:
			return false, ErrHistories
		}
		all, history = all && !missed, found.History
	}
	return all, nil
}

// try attempts one revision; done reports whether all views are known there.
func try(ctx context.Context, minimum int64, parts []Part) (revision int64, done bool, err error) {
	seeks := make([]*seek, len(parts))
	for i, part := range parts {
		seeks[i] = &seek{}
		stop, err := part.begin(seeks[i])
		if err != nil {
			return 0, false, err
		}
		defer stop()
	}
	// Waiting for revisions of different histories is pointless.
	if _, err := common(seeks); err != nil {
		return 0, false, err
	}
	revision = minimum
	for _, s := range seeks {
		revision = max(revision, s.through())
	}
	for _, s := range seeks {
		s.aim(revision)
	}
	if err := wait(ctx, revision, parts); err != nil {
		return 0, false, err
	}
	if all, err := common(seeks); err != nil || !all {
		return 0, false, err
	}
	for i, s := range seeks {
		parts[i].set(s.found, s.objects)
	}
	return revision, true, nil
}
