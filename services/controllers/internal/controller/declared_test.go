package controller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestHandleTakesThePlaceOfRequests checks that a handler sees every change, and alone decides what is reconciled.
func TestHandleTakesThePlaceOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		var calls []string
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			sets := controller.For[*appsv1.ReplicaSet](d)
			sets.Handle = func(q controller.Queue, old, now *appsv1.ReplicaSet) {
				switch {
				case now == nil:
					calls = append(calls, "gone")
					q.Add(old)
				case old == nil:
					calls = append(calls, "new")
					q.AddAfter(now, time.Minute)
				default:
					calls = append(calls, "changed")
				}
			}
			return &controller.Spec{Name: "test-controller", Resource: "replicasets", For: sets, Reconcile: s.reconcile}
		})
		p.Start()
		p.Load(replicaSet("web", nil))
		s.expect(t, "new")
		time.Sleep(time.Minute)
		s.expect(t, "a minute later", "default/web")
		controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"a": "b"} })
		s.expect(t, "changed")
		p.Remove(replicaSet("web", nil))
		keys := s.take()
		if len(keys) != 1 || keys[0].Root != "uid-web" {
			t.Errorf("gone: got keys %+v", keys)
		}
		if want := []string{"new", "changed", "gone"}; !slices.Equal(calls, want) {
			t.Errorf("got calls %q, want %q", calls, want)
		}
	})
}

// TestBeside checks that a controller's queues run together, and each asks its own function.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second seen
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			return &controller.Spec{
				Name: "test-controller", Resource: "replicasets", For: controller.For[*appsv1.ReplicaSet](d), Reconcile: first.reconcile,
				Beside: []*controller.Spec{{
					Name: "other", Resource: "pods", For: controller.For[*corev1.Pod](d), Reconcile: second.reconcile,
				}},
			}
		})
		p.Start()
		p.Load(replicaSet("web", nil), pod("p", "web", nil))
		first.expect(t, "the first queue", "default/web")
		second.expect(t, "the second queue", "default/p")
	})
}

func TestBesideEndsWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		runner := p.Runner(func(d controller.Deps) *controller.Spec {
			spec := s.declare(d)
			spec.Beside = []*controller.Spec{{
				Name: "other", Resource: "pods", For: controller.For[*corev1.Pod](d), Reconcile: s.reconcile,
				Also: []func(context.Context) error{func(context.Context) error { return errors.New("broken") }},
			}}
			return spec
		})
		p.Start()
		if err := runner.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "other: broken") {
			t.Errorf("got %v", err)
		}
	})
}

func TestBesideIsChecked(t *testing.T) {
	p := controltest.New(t)
	var s seen
	spec := s.declare(p.Deps())
	spec.Beside = []*controller.Spec{{Name: "other"}}
	if _, err := controller.NewRunner(p.Deps(), spec); err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got %v", err)
	}
}

// never is a condition that does not come true.
type never struct{ done chan struct{} }

func (never) Name() string { return "the end of time" }

func (n never) Done() <-chan struct{} { return n.done }

// TestWaitsForWhatIsDeclared checks that nothing is reconciled before WaitFor is done.
func TestWaitsForWhatIsDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		until := never{make(chan struct{})}
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			spec := s.declare(d)
			spec.WaitFor = []informer.DoneChecker{until}
			return spec
		})
		p.Load(replicaSet("web", nil))
		p.Start()
		s.expect(t, "before")
		close(until.done)
		s.expect(t, "after", "default/web")
	})
}

// TestIndexed checks that an index exists by the first reconcile, and that a second term and another controller may
// ask for it again.
func TestIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := make(chan int, 4)
		p := controltest.New(t)
		indexing := func(d controller.Deps) *controller.Spec {
			pods := informer.For[*corev1.Pod](d.Informers)
			return &controller.Spec{
				Name: "test-controller", Resource: "replicasets", For: controller.For[*appsv1.ReplicaSet](d),
				Watches: []controller.Watch{controller.Indexed(pods, "app", func(pod *corev1.Pod) ([]string, error) {
					return []string{pod.Labels["app"]}, nil
				})},
				Reconcile: func(context.Context, controller.Key) (reconcile.Result, error) {
					got, err := pods.Indexer().ByIndex("app", "web")
					if err != nil {
						return reconcile.Result{}, err
					}
					found <- len(got)
					return reconcile.Result{}, nil
				},
			}
		}
		p.Load(replicaSet("web", nil), pod("a", "web", nil), pod("b", "web", nil), pod("c", "db", nil))
		p.Declare(indexing)
		p.Declare(indexing)
		p.Start()
		for range 2 {
			if got := <-found; got != 2 {
				t.Errorf("got %d pods, want 2", got)
			}
		}
	})
}

// TestBeginHasTheQueue checks that each term begins with its queue, whose keys need not be objects.
func TestBeginHasTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		runner := p.Runner(func(d controller.Deps) *controller.Spec {
			spec := s.declare(d)
			spec.Begin = func(q controller.Queue) { q.Low().Normal().AddKey(controller.Key{Name: "deployments.apps"}) }
			return spec
		})
		p.Start()
		for term := range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx) }()
			s.expect(t, "a term", "deployments.apps")
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("term %d: %v", term, err)
			}
		}
	})
}

// TestForView checks that a controller is for the objects of its view only.
func TestForView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			return &controller.Spec{
				Name: "test-controller", Resource: "pods", Reconcile: s.reconcile,
				For: controller.ForView[*corev1.Pod](d, informer.View{Namespace: metav1.NamespaceSystem}),
			}
		})
		inside := pod("in", "web", nil)
		inside.Namespace = metav1.NamespaceSystem
		p.Load(inside, pod("out", "web", nil))
		p.Start()
		s.expect(t, "with a view", "kube-system/in")
	})
}
