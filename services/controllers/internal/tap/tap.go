// Package tap lets a second sink hear what the informer of a view is told, so that a process that
// reads a resource in two ways receives and decodes each change once.
package tap

import (
	"context"
	"sync"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// Source is a source whose followers can be tapped until they run. It is safe for concurrent use.
type Source struct {
	inner informer.Source

	mu sync.Mutex
	// waiting are the followers that do not run yet, the latest of each view.
	waiting map[viewKey]*follower
}

type viewKey struct {
	kind *scheme.Kind
	view informer.View
}

// New returns a source of followers of inner.
func New(inner informer.Source) *Source {
	return &Source{inner: inner, waiting: map[viewKey]*follower{}}
}

// Follower returns a follower of inner, which Tap finds until it runs.
func (s *Source) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	joint := &joint{own: sink}
	f := &follower{Follower: s.inner.Follower(kind, view, joint), source: s, key: viewKey{kind, view}, joint: joint}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[f.key] = f
	return f
}

// Tap has sink hear everything that the follower of a view tells its own sink, before that one does. The
// objects belong to the other: sink must not change them, nor keep parts that a transform may change. It
// returns the follower's Require. It returns false if the view has no follower that does not run yet: what
// a sink has missed would be lost to it.
func (s *Source) Tap(kind *scheme.Kind, view informer.View, sink informer.Sink) (require func(revision int64), tapped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.waiting[viewKey{kind, view}]
	if f == nil {
		return nil, false
	}
	f.joint.taps = append(f.joint.taps, sink)
	return f.Require, true
}

// follower is a follower of inner that feeds a joint.
type follower struct {
	informer.Follower
	source *Source
	key    viewKey
	joint  *joint
}

// Run follows the view until ctx ends. From now on nothing can tap it.
func (f *follower) Run(ctx context.Context) error {
	f.close()
	return f.Follower.Run(ctx)
}

// Resume begins with earlier content. From now on nothing can tap the follower.
func (f *follower) Resume(at fabric.Position, objects []informer.Object) error {
	f.close()
	return f.Follower.Resume(at, objects)
}

func (f *follower) close() {
	f.source.mu.Lock()
	defer f.source.mu.Unlock()
	if f.source.waiting[f.key] == f {
		delete(f.source.waiting, f.key)
	}
}

// joint is a sink and its taps. The taps do not change once the follower runs.
type joint struct {
	own  informer.Sink
	taps []informer.Sink
}

// Replace tells all of a whole view.
func (j *joint) Replace(at fabric.Position, objects []informer.Object) {
	for _, tap := range j.taps {
		tap.Replace(at, objects)
	}
	j.own.Replace(at, objects)
}

// Apply tells all of changes.
func (j *joint) Apply(changes []informer.Change, revision int64) {
	for _, tap := range j.taps {
		tap.Apply(changes, revision)
	}
	j.own.Apply(changes, revision)
}

// Confirmed tells all that the resumed content holds.
func (j *joint) Confirmed() {
	for _, tap := range j.taps {
		tap.Confirmed()
	}
	j.own.Confirmed()
}

// Known tells all of a revision of etcd.
func (j *joint) Known(revision int64) {
	for _, tap := range j.taps {
		tap.Known(revision)
	}
	j.own.Known(revision)
}

// WatchError tells all why the view cannot be followed.
func (j *joint) WatchError(ctx context.Context, err error) {
	for _, tap := range j.taps {
		tap.WatchError(ctx, err)
	}
	j.own.WatchError(ctx, err)
}

// Preload gives all the content of an earlier process. It returns false if one of them has no store: then all
// begin with the whole view.
func (j *joint) Preload(at fabric.Position, objects []informer.Object) bool {
	for _, tap := range j.taps {
		if !tap.Preload(at, objects) {
			return false
		}
	}
	return j.own.Preload(at, objects)
}

// Intervals observes the content of the follower's own sink: that of the taps is the same.
func (j *joint) Intervals(observe func(informer.Interval)) (stop func()) {
	return j.own.Intervals(observe)
}
