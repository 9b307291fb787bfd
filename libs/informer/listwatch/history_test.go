package listwatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

var (
	unnamed fabric.History
	h1      = fabric.History{Created: 1, Nonce: 7}
	h2      = fabric.History{Created: 2, Nonce: 1}
)

// historic is a sink that records histories too.
type historic struct{ sink }

func (h *historic) Replace(at fabric.Position, objects []informer.Object) {
	h.mu.Lock()
	h.said = append(h.said, "of "+at.History.String())
	h.mu.Unlock()
	h.sink.Replace(at, objects)
}

// resume runs a follower whose sink holds a view at a revision of a history.
func resume(t *testing.T, s *script, of fabric.History, revision int64) (*historic, func()) {
	t.Helper()
	s.Client = fake.New(scheme.New())
	to := &historic{sink{pods: map[string]string{}}}
	f := listwatch.New(s, nil).Resume(scheme.For[*corev1.Pod](s.Table()), informer.View{}, to, fabric.Position{History: of, Revision: revision})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return to, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("following: %v", err)
		}
	}
}

// TestHistories checks what a follower does with responses that name their history.
func TestHistories(t *testing.T) {
	opened := func(revision string) func(int, *metav1.ListOptions) (watch.Interface, error) {
		return func(int, *metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Modify(pod("p", revision))
			return w, nil
		}
	}
	at := func(revision string) func(int) (*corev1.PodList, error) {
		return func(int) (*corev1.PodList, error) { return listOf(revision, "", pod("p", "3")), nil }
	}
	for name, one := range map[string]struct {
		of       []fabric.History // of watches and lists, in order
		history  fabric.History   // of the sink's content
		position int64
		want     []string
		watches  int
	}{
		"a watch of the same history continues":    {[]fabric.History{h1}, h1, 20, []string{"+p to 30"}, 1},
		"a watch without a history continues":      {[]fabric.History{unnamed}, h1, 20, []string{"+p to 30"}, 1},
		"a watch of an older history is refused":   {[]fabric.History{h1, h1, h2}, h2, 20, []string{"+p to 30"}, 3},
		"a newer history begins with a whole view": {[]fabric.History{h2}, h1, 20, []string{"of " + h2.String(), "1 objects at 25", "+p to 30"}, 2},
		"a history where none was known":           {[]fabric.History{h2}, unnamed, 20, []string{"of " + h2.String(), "1 objects at 25", "+p to 30"}, 2},
		"a list of an older history is refused":    {[]fabric.History{h1, h1, h2}, h2, 0, []string{"of " + h2.String(), "1 objects at 25", "+p to 30"}, 1},
		"a list without a history is accepted":     {[]fabric.History{unnamed}, h2, 0, []string{"of ", "1 objects at 25", "+p to 30"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{list: at("25"), watch: opened("30"), of: one.of}
				to, end := resume(t, s, one.history, one.position)
				pass(30 * time.Second)
				to.expect(t, one.want...)
				end()
				if len(s.watches) != one.watches {
					t.Errorf("%d watches were opened, want %d", len(s.watches), one.watches)
				}
			})
		})
	}
}

// TestHistoriesOfWatchLists is TestHistories for whole views read by a watch.
func TestHistoriesOfWatchLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			of:        []fabric.History{h1, h1, h2},
			watchList: func(int, *metav1.ListOptions) (watch.Interface, error) { return initial("10", pod("p", "3")), nil },
			watch:     quietWatch,
		}
		to, end := resume(t, s, h2, 0)
		pass(30 * time.Second)
		to.expect(t, "of "+h2.String(), "1 objects at 10")
		end()
		if len(s.watchLists) != 3 || len(s.lists) != 0 {
			t.Errorf("%d views were read by watches, %d by lists", len(s.watchLists), len(s.lists))
		}
	})
}

// TestAPageOfAnotherHistory checks that pages of two histories do not make a list.
func TestAPageOfAnotherHistory(t *testing.T) {
	for name, one := range map[string]struct {
		of   []fabric.History
		want fabric.History
	}{
		"one history":       {[]fabric.History{h1, h1}, h1},
		"two, then one":     {[]fabric.History{h1, h2, h2}, h2},
		"one and not known": {[]fabric.History{h1, unnamed}, unnamed},
		"not known and one": {[]fabric.History{unnamed, h1, unnamed}, unnamed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{of: one.of, watch: quietWatch, list: func(n int) (*corev1.PodList, error) {
					if n%2 == 1 {
						return listOf("10", "more", pod("p1", "3")), nil
					}
					return listOf("10", "", pod("p2", "4")), nil
				}}
				to, end := resume(t, s, unnamed, 0)
				pass(5 * time.Second)
				to.expect(t, "of "+one.want.String(), "2 objects at 10")
				end()
			})
		})
	}
}

// TestAnEtcdThatWasWipedIsFollowed: if the clock was ahead when the last history began, the history
// of a wiped etcd is the older one. It is followed once servers have named nothing else for long,
// although they were asked for content as new as etcd.
func TestAnEtcdThatWasWipedIsFollowed(t *testing.T) {
	for name, position := range map[string]int64{"a watch": 20, "a list": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list: func(int) (*corev1.PodList, error) { return listOf("5", "", pod("p", "3")), nil },
					watch: func(int, *metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFakeWithChanSize(1, false)
						w.Modify(pod("p", "6"))
						return w, nil
					},
					of: []fabric.History{h1},
				}
				to, end := resume(t, s, h2, position)
				pass(50 * time.Second)
				to.expect(t)
				pass(2 * time.Minute)
				to.expect(t, "of "+h1.String(), "1 objects at 5", "+p to 6")
				end()
				if n := len(s.lists); n == 0 || s.lists[n-1].ResourceVersion != "" {
					t.Errorf("the last of %d lists was not as new as etcd", n)
				}
			})
		})
	}
}

// TestAServerThatLagsIsNotFollowed checks that a server with an older history is not followed while
// another one knows the newer history, now and then.
func TestAServerThatLagsIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of []fabric.History
		for range 100 {
			of = append(of, h1, h1, h2)
		}
		s := &script{
			list: func(int) (*corev1.PodList, error) { return listOf("25", "", pod("p", "3")), nil },
			watch: func(int, *metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewFake()
				time.AfterFunc(5*time.Second, w.Stop)
				return w, nil
			},
			of: of,
		}
		to, end := resume(t, s, h2, 20)
		pass(5 * time.Minute)
		to.expect(t)
		end()
	})
}
