package tap_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/tap"
)

// script is a source whose followers the test plays.
type script struct{ sinks []informer.Sink }

func (s *script) Follower(_ *scheme.Kind, _ informer.View, sink informer.Sink) informer.Follower {
	s.sinks = append(s.sinks, sink)
	return &played{sink: sink}
}

type played struct {
	informer.FollowerDefaults
	sink informer.Sink
}

var errEnd = errors.New("the follower ended")

func (p *played) Run(context.Context) error {
	p.sink.Replace(fabric.Position{Revision: 1}, nil)
	return errEnd
}

func (p *played) Require(revision int64) { p.sink.Known(revision) }

func (p *played) Resume(fabric.Position, []informer.Object) error { return nil }

// notes is a sink that writes down what it is told, in a list that it may share.
type notes struct {
	informer.SinkDefaults
	name  string
	said  *[]string
	store bool
}

func (n notes) note(format string, args ...any) {
	*n.said = append(*n.said, n.name+": "+fmt.Sprintf(format, args...))
}

func (n notes) Replace(at fabric.Position, objects []informer.Object) {
	n.note("replace %d at %d", len(objects), at.Revision)
}

func (n notes) Apply(changes []informer.Change, revision int64) {
	n.note("apply %d to %d", len(changes), revision)
}

func (n notes) Confirmed()                              { n.note("confirmed") }
func (n notes) Known(revision int64)                    { n.note("known %d", revision) }
func (n notes) WatchError(_ context.Context, err error) { n.note("fault %v", err) }

func (n notes) Preload(_ fabric.Position, objects []informer.Object) bool {
	n.note("preload %d", len(objects))
	return n.store
}

func pods() *scheme.Kind { return scheme.For[*corev1.Pod](scheme.New()) }

// TestTapsHearEverythingFirst: whatever the follower says reaches the taps, in order, before its own sink.
func TestTapsHearEverythingFirst(t *testing.T) {
	objects := []informer.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	for name, tt := range map[string]struct {
		say  func(informer.Sink)
		want string
	}{
		"a whole view": {func(s informer.Sink) { s.Replace(fabric.Position{Revision: 3}, objects) }, "replace 1 at 3"},
		"changes":      {func(s informer.Sink) { s.Apply([]informer.Change{{}, {}}, 5) }, "apply 2 to 5"},
		"progress":     {func(s informer.Sink) { s.Apply(nil, 6) }, "apply 0 to 6"},
		"confirmation": {func(s informer.Sink) { s.Confirmed() }, "confirmed"},
		"a revision":   {func(s informer.Sink) { s.Known(7) }, "known 7"},
		"a fault":      {func(s informer.Sink) { s.WatchError(t.Context(), errEnd) }, "fault the follower ended"},
		"old content":  {func(s informer.Sink) { s.Preload(fabric.Position{Revision: 3}, objects) }, "preload 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			inner := &script{}
			source, kind := tap.New(inner), pods()
			source.Follower(kind, informer.View{}, notes{name: "own", said: &said, store: true})
			for _, name := range []string{"first", "second"} {
				if _, ok := source.Tap(kind, informer.View{}, notes{name: name, said: &said, store: true}); !ok {
					t.Fatal("a follower that does not run was not tapped")
				}
			}
			tt.say(inner.sinks[0])
			if want := []string{"first: " + tt.want, "second: " + tt.want, "own: " + tt.want}; !slices.Equal(said, want) {
				t.Errorf("got %q, want %q", said, want)
			}
		})
	}
}

// TestOnlyWaitingFollowersAreTapped: a sink that would miss something is refused.
func TestOnlyWaitingFollowersAreTapped(t *testing.T) {
	table := scheme.New()
	kind, other := scheme.For[*corev1.Pod](table), scheme.For[*corev1.Node](table)
	for name, tt := range map[string]struct {
		kind *scheme.Kind
		view informer.View
		do   func(informer.Follower)
		want bool
	}{
		"a follower that waits":    {kind: kind, want: true},
		"another kind":             {kind: other},
		"another view":             {kind: kind, view: informer.View{Namespace: "default"}},
		"a follower that has run":  {kind: kind, do: func(f informer.Follower) { _ = f.Run(t.Context()) }},
		"a follower that resumed":  {kind: kind, do: func(f informer.Follower) { _ = f.Resume(fabric.Position{}, nil) }},
		"a follower that was used": {kind: kind, do: func(f informer.Follower) { f.Require(4) }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			source := tap.New(&script{})
			f := source.Follower(kind, informer.View{}, notes{name: "own", said: &said})
			if tt.do != nil {
				tt.do(f)
			}
			said = nil
			if _, ok := source.Tap(tt.kind, tt.view, notes{name: "tap", said: &said}); ok != tt.want {
				t.Errorf("tapped: %v, want %v", ok, tt.want)
			}
		})
	}
}

// TestTheLatestFollowerOfAViewIsTapped: the end of an earlier one's wait does not hide it.
func TestTheLatestFollowerOfAViewIsTapped(t *testing.T) {
	var said []string
	inner := &script{}
	source, kind := tap.New(inner), pods()
	first := source.Follower(kind, informer.View{}, notes{name: "first", said: &said})
	source.Follower(kind, informer.View{}, notes{name: "second", said: &said})
	if err := first.Run(t.Context()); !errors.Is(err, errEnd) {
		t.Errorf("got error %v, want the follower's", err)
	}
	require, ok := source.Tap(kind, informer.View{}, notes{name: "tap", said: &said})
	if !ok {
		t.Fatal("the second follower was not tapped")
	}
	said = nil
	require(9)
	inner.sinks[1].Apply(nil, 9)
	want := []string{"tap: known 9", "second: known 9", "tap: apply 0 to 9", "second: apply 0 to 9"}
	if !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}

// TestWithoutAStoreNothingIsPreloaded: what one of the sinks cannot take, all do without.
func TestWithoutAStoreNothingIsPreloaded(t *testing.T) {
	for name, tt := range map[string]struct{ own, tap, want bool }{
		"both have a store":  {true, true, true},
		"the tap has none":   {true, false, false},
		"the owner has none": {false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			inner := &script{}
			source, kind := tap.New(inner), pods()
			source.Follower(kind, informer.View{}, notes{name: "own", said: &said, store: tt.own})
			source.Tap(kind, informer.View{}, notes{name: "tap", said: &said, store: tt.tap})
			if got := inner.sinks[0].Preload(fabric.Position{}, nil); got != tt.want {
				t.Errorf("preloaded: %v, want %v", got, tt.want)
			}
			if slices.Contains(said, "own: preload 0") != tt.tap {
				t.Errorf("the owner's store was filled in vain: %q", said)
			}
		})
	}
}
