package listwatch

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// Stepper is a follower as created by Resume, but without goroutines, clocks and waits: its owner
// decides when it does something. What it accepts is decided by the same code as in real followers.
// It is for simulations, and only one goroutine may use it at a time.
type Stepper struct {
	informer.FollowerDefaults
	follower *follower
	watch    watch.Interface
	// read means that the whole view must be read.
	read bool
}

// Stepper creates a follower that its owner steps.
func (s *Source) Stepper(kind *scheme.Kind, view informer.View, sink informer.Sink, at fabric.Position) *Stepper {
	f := s.follower(kind, view, sink)
	f.history, f.position, f.unavailable = at.History, at.Revision, at.Revision == 0
	return &Stepper{follower: f, read: at.Revision == 0}
}

// Require asks for content at or above a revision.
func (s *Stepper) Require(revision int64) { s.follower.Require(revision) }

// Run does nothing.
func (s *Stepper) Run(context.Context) error { return nil }

// End ends the watch, if there is one.
func (s *Stepper) End() {
	if s.watch != nil {
		s.watch.Stop()
		s.watch = nil
	}
}

// Step reads the view or opens the watch, as needed, and then applies the events that the watch has
// ready. These must not end in the middle of a revision. After an error the owner should wait.
func (s *Stepper) Step(ctx context.Context) (err error) {
	f := s.follower
	if s.read {
		if s.watch, err = f.read(ctx); err != nil {
			return err
		}
		s.read = false
	}
	if s.watch == nil {
		if s.watch, err = f.reopen(ctx); err != nil {
			s.watch, s.read = nil, !errors.Is(err, errOlder) && !isRetriable(err)
			return err
		}
	}
	defer f.release()
	for {
		select {
		case event, open := <-s.watch.ResultChan():
			switch {
			case !open:
				s.End()
				return nil
			case event.Type == watch.Error:
				err = f.fault(apierrors.FromObject(event.Object))
			default:
				err = f.apply(event)
			}
			if err != nil {
				s.End()
				s.read, f.unavailable = true, f.unavailable || errors.Is(err, errBackwards)
				return err
			}
		default:
			return nil
		}
	}
}
