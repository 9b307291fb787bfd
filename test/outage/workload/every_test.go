package workload

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// server has the states of one replica set, one a revision. Its watches end after a state, and begin
// only at every other attempt.
type server struct {
	mu       sync.Mutex
	states   []int32
	lists    int
	attempts int
	expired  bool // the next watch is too old
}

func (s *server) state(i int) *appsv1.ReplicaSet {
	one := set("s", s.states[i])
	one.ResourceVersion = strconv.Itoa(i + 1)
	return one
}

func (s *server) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists++; s.lists%2 == 1 {
		return nil, unavailable()
	}
	at := len(s.states)
	if s.lists == 2 {
		at = 1
	}
	return &appsv1.ReplicaSetList{
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(at)}, Items: []appsv1.ReplicaSet{*s.state(at - 1)},
	}, nil
}

func (s *server) watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts++; s.attempts%2 == 1 {
		return nil, unavailable()
	}
	events := make(chan watch.Event, 1)
	defer close(events)
	from, err := strconv.Atoi(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	switch {
	case s.expired:
		s.expired = false
		status := apierrors.NewResourceExpired("too old").Status()
		events <- watch.Event{Type: watch.Error, Object: &status}
	case from < len(s.states):
		events <- watch.Event{Type: watch.Modified, Object: s.state(from)}
	}
	return watch.NewProxyWatcher(events), nil
}

func unavailable() error {
	return apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", appsv1.Resource("replicasets"), "", "no server", 0, true)
}

// TestEveryStateIsSeen checks that no state is missed though watches end and cannot begin, and that a list
// says so if one had to be.
func TestEveryStateIsSeen(t *testing.T) {
	for _, test := range []struct {
		name    string
		expired bool
		lists   int
		want    []int32
	}{
		{"unavailable for a while", false, 1, []int32{1, 3, 5, 2}},
		{"too old", true, 2, []int32{1, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{states: []int32{1, 3, 5, 2}, expired: test.expired}
				from := cache.ToListerWatcherWithContext(&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				lists := 0
				var saw []int32
				add := func(obj any) {
					if saw = append(saw, *obj.(*appsv1.ReplicaSet).Spec.Replicas); slices.Equal(saw, test.want) {
						cancel()
					}
				}
				every(ctx, from, func(objs []any) error {
					lists++
					for _, obj := range objs {
						add(obj)
					}
					return nil
				}, func(_ watch.EventType, obj any) error {
					add(obj)
					return nil
				})
				if !slices.Equal(saw, test.want) || lists != test.lists {
					t.Errorf("saw %v with %d lists, want %v with %d", saw, lists, test.want, test.lists)
				}
			})
		})
	}
}
