package listwatch_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is an apiserver that follows a script: watches that begin with the existing objects
// (refused unless watchList is set), lists, and other watches. It records the calls.
type script struct {
	*fake.Client
	mu         sync.Mutex
	lists      []*metav1.ListOptions
	watches    []*metav1.ListOptions
	watchLists []*metav1.ListOptions
	list       func(n int) (*corev1.PodList, error)
	watch      func(n int, opts *metav1.ListOptions) (watch.Interface, error)
	watchList  func(n int, opts *metav1.ListOptions) (watch.Interface, error)
	// of are the histories of the next responses; the last one applies to all further responses.
	of []fabric.History
}

// says sets the history of a response.
func (s *script) says(call client.Call) {
	if len(s.of) > 0 {
		*call.History = s.of[0]
		s.of = s.of[min(1, len(s.of)-1):]
	}
}

func (s *script) Do(_ context.Context, call client.Call, into runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says(call)
	opts := call.Options.(*metav1.ListOptions)
	s.lists = append(s.lists, opts.DeepCopy())
	list, err := s.list(len(s.lists))
	if err == nil {
		list.DeepCopyInto(into.(*corev1.PodList))
	}
	return err
}

func (s *script) Watch(_ context.Context, call client.Call) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	opts := call.Options.(*metav1.ListOptions)
	if opts.SendInitialEvents != nil {
		s.watchLists = append(s.watchLists, opts.DeepCopy())
		if s.watchList == nil {
			return nil, apierrors.NewBadRequest("sendInitialEvents is forbidden")
		}
		s.says(call)
		return s.watchList(len(s.watchLists), opts)
	}
	s.says(call)
	s.watches = append(s.watches, opts.DeepCopy())
	return s.watch(len(s.watches), opts)
}

func pod(name, revision string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", ResourceVersion: revision}}
}

func listOf(revision, next string, pods ...*corev1.Pod) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: revision, Continue: next}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	return list
}

// sink records its calls.
type sink struct {
	informer.SinkDefaults
	mu   sync.Mutex
	said []string
	pods map[string]string
	at   int64
}

func (s *sink) Replace(at fabric.Position, objects []informer.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods, s.at = map[string]string{}, at.Revision
	for _, obj := range objects {
		s.pods[obj.GetName()] = obj.GetResourceVersion()
		if obj.GetObjectKind().GroupVersionKind().Kind != "Pod" {
			s.said = append(s.said, "no kind")
		}
	}
	s.said = append(s.said, fmt.Sprintf("%d objects at %d", len(objects), at.Revision))
}

func (s *sink) Apply(changes []informer.Change, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	for _, c := range changes {
		sign := "+"
		if c.Deleted {
			sign = "-"
			delete(s.pods, c.Name)
		} else {
			s.pods[c.Name] = c.Object.GetResourceVersion()
		}
		text += sign + c.Name + " "
	}
	s.at = revision
	s.said = append(s.said, fmt.Sprintf("%sto %d", text, revision))
}

func (s *sink) expect(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if fmt.Sprint(s.said) != fmt.Sprint(want) {
		t.Errorf("the sink got %q, want %q", s.said, want)
	}
	s.said = nil
}

// pass lets time pass in the test's bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func run(t *testing.T, s *script, view informer.View) (*sink, informer.Follower, func()) {
	t.Helper()
	return runWith(t, s, view, listwatch.Config{})
}

func runWith(t *testing.T, s *script, view informer.View, cfg listwatch.Config) (*sink, informer.Follower, func()) {
	t.Helper()
	s.Client = fake.New(scheme.New())
	cfg.Client = s
	to := &sink{}
	f := listwatch.NewWithConfig(cfg).Follower(scheme.For[*corev1.Pod](s.Table()), view, to)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return to, f, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("following: %v", err)
		}
	}
}

func TestListThenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch.NewFake()
		s := &script{
			list: func(n int) (*corev1.PodList, error) {
				if n == 1 {
					return listOf("10", "more", pod("p1", "3")), nil
				}
				return listOf("10", "", pod("p2", "4")), nil
			},
			watch: func(int, *metav1.ListOptions) (watch.Interface, error) { return w, nil },
		}
		to, _, end := run(t, s, informer.View{Namespace: "a", Scope: "n1"})
		synctest.Wait()
		to.expect(t, "2 objects at 10")
		if s.lists[0].ResourceVersion != "0" || s.lists[1].Continue != "more" || s.lists[0].FieldSelector != "spec.nodeName=n1" {
			t.Errorf("the lists were %+v", s.lists)
		}
		if o := s.watches[0]; o.ResourceVersion != "10" || !o.AllowWatchBookmarks || o.FieldSelector != "spec.nodeName=n1" || o.TimeoutSeconds == nil {
			t.Errorf("the watch was %+v", o)
		}
		w.Add(pod("p3", "11"))
		synctest.Wait()
		to.expect(t) // There may be more of revision 11.
		w.Delete(pod("p1", "11"))
		w.Modify(pod("p2", "12"))
		pass(time.Second)
		to.expect(t, "+p3 -p1 to 11", "+p2 to 12")
		w.Action(watch.Bookmark, pod("", "20"))
		synctest.Wait()
		to.expect(t, "to 20")
		w.Add(pod("p4", "21"))
		w.Action(watch.Bookmark, pod("", "21"))
		synctest.Wait()
		to.expect(t, "+p4 to 21")
		end()
	})
}

func TestWatchThatEndsGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := watch.NewFake(), watch.NewFake()
		s := &script{
			list: func(int) (*corev1.PodList, error) { return listOf("10", ""), nil },
			watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
				return []watch.Interface{first, second}[n-1], nil
			},
		}
		to, _, end := run(t, s, informer.View{})
		synctest.Wait()
		first.Add(pod("p", "11"))
		first.Stop()
		pass(time.Minute)
		to.expect(t, "0 objects at 10", "+p to 11")
		if len(s.lists) != 1 || len(s.watches) != 2 || s.watches[1].ResourceVersion != "11" {
			t.Errorf("%d lists, watches %+v", len(s.lists), s.watches)
		}
		end()
	})
}

func TestExpiredListsAgain(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old")
	for name, fail := range map[string]func(w *watch.FakeWatcher) error{
		"when it is opened": func(*watch.FakeWatcher) error { return gone },
		"in the middle":     func(w *watch.FakeWatcher) error { go w.Error(&gone.ErrStatus); return nil },
		"backwards":         func(w *watch.FakeWatcher) error { go w.Add(pod("p", "5")); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list: func(n int) (*corev1.PodList, error) { return listOf(fmt.Sprint(10*n), ""), nil },
					watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFake()
						if n == 1 {
							if err := fail(w); err != nil {
								return nil, err
							}
						}
						return w, nil
					},
				}
				to, _, end := run(t, s, informer.View{})
				pass(time.Minute)
				to.expect(t, "0 objects at 10", "0 objects at 20")
				end()
			})
		})
	}
}

func TestServersWishToWaitIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			list: func(n int) (*corev1.PodList, error) {
				if n == 1 {
					return nil, apierrors.NewTooManyRequests("later", 120)
				}
				return listOf("10", ""), nil
			},
			watch: func(int, *metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		}
		to, _, end := run(t, s, informer.View{})
		pass(119 * time.Second)
		to.expect(t)
		pass(2 * time.Second)
		to.expect(t, "0 objects at 10")
		end()
	})
}

func TestRequireListsWhenTheWatchIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			list:  func(n int) (*corev1.PodList, error) { return listOf(fmt.Sprint(10*n), ""), nil },
			watch: func(int, *metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		}
		to, f, end := run(t, s, informer.View{})
		synctest.Wait()
		f.Require(8) // already reached
		pass(time.Second)
		to.expect(t, "0 objects at 10")
		f.Require(15)
		pass(time.Second)
		to.expect(t, "0 objects at 20")
		if o := s.lists[1]; o.ResourceVersion != "15" || o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
			t.Errorf("the list was %+v", o)
		}
		end()
	})
}

// TestAgainstTheFakeApiserver runs a follower against the fake apiserver, which behaves like a real
// one.
func TestAgainstTheFakeApiserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		pods := client.Of[*corev1.Pod](c)
		to := &sink{}
		f := listwatch.New(c, nil).Follower(pods.Kind(), informer.View{Namespace: "a"}, to)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		for i := range 20 {
			for _, namespace := range []string{"a", "b"} {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("p", i)}}
				if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if i%3 == 2 {
				grace := int64(0)
				if err := pods.Delete(ctx, "a", fmt.Sprint("p", i-1), metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Millisecond)
		}
		pass(time.Second)
		want := map[string]string{}
		list, _, err := pods.List(ctx, "a", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			want[p.Name] = p.ResourceVersion
		}
		to.mu.Lock()
		if len(want) != 14 || !maps.Equal(to.pods, want) {
			t.Errorf("the sink holds %v, the apiserver %v", to.pods, want)
		}
		to.mu.Unlock()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestForbiddenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			list: func(n int) (*corev1.PodList, error) {
				if n < 3 {
					return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}}
				}
				return listOf("10", ""), nil
			},
			watch: func(int, *metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		}
		to, _, end := run(t, s, informer.View{})
		pass(time.Minute)
		to.expect(t, "0 objects at 10")
		end()
	})
}
