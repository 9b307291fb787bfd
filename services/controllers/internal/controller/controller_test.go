package controller_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen are the keys that were reconciled.
type seen struct {
	mu   sync.Mutex
	keys []controller.Key
}

func (s *seen) reconcile(_ context.Context, key controller.Key) (reconcile.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, key)
	return reconcile.Result{}, nil
}

// take returns the keys since the last call.
func (s *seen) take() []controller.Key {
	time.Sleep(time.Second)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys
	s.keys = nil
	return keys
}

func (s *seen) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	got := map[string]bool{}
	for _, key := range s.take() {
		got[key.String()] = true
	}
	for _, key := range want {
		if !got[key] {
			t.Errorf("%s: %s is not reconciled", what, key)
		}
		delete(got, key)
	}
	for key := range got {
		t.Errorf("%s: %s is reconciled", what, key)
	}
}

func replicaSet(name string, owner *metav1.OwnerReference) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}
	if owner != nil {
		rs.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return rs
}

func reference(kind, name string) *metav1.OwnerReference {
	yes := true
	return &metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}
}

func pod(name, app string, owner *metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app}}}
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return p
}

// declare declares a controller of ReplicaSets that adopts pods.
func (s *seen) declare(d controller.Deps) *controller.Spec {
	sets := controller.For[*appsv1.ReplicaSet](d)
	pods := controller.OwnedBy[*corev1.Pod](d, sets)
	pods.Selects = func(rs *appsv1.ReplicaSet) (labels.Selector, error) {
		return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	}
	controller.For[*appsv1.Deployment](d) // so that roots are found
	return &controller.Spec{
		Name: "test-controller", Resource: "replicasets", For: sets, Watches: []controller.Watch{pods}, Reconcile: s.reconcile,
	}
}

// TestWhatAsksForAReconcile checks which keys follow from which change.
func TestWhatAsksForAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		p.Declare(s.declare)
		p.Load(replicaSet("web", nil))
		p.Load(replicaSet("db", nil))
		p.Start()
		s.expect(t, "the first list", "default/web", "default/db")
		p.Load(pod("a", "web", reference("ReplicaSet", "web")))
		s.expect(t, "a new pod", "default/web")
		controltest.SetStatus(p, "default", "a", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
		s.expect(t, "a changed pod", "default/web")
		p.Load(pod("b", "db", nil))
		s.expect(t, "a pod without an owner", "default/db")
		p.Load(pod("c", "nobody", nil))
		s.expect(t, "a pod that nobody selects")
		p.Load(pod("d", "web", reference("ReplicaSet", "gone")))
		s.expect(t, "a pod of an unknown owner")
		stranger := reference("ReplicaSet", "web")
		stranger.UID = "another"
		p.Load(pod("e", "web", stranger))
		s.expect(t, "a pod of an owner whose name was taken")
		controltest.Change(p, "default", "c", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "web"} })
		s.expect(t, "a pod that is relabelled", "default/web")
		controltest.Change(p, "default", "a", func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{*reference("ReplicaSet", "db")}
		})
		s.expect(t, "a pod that changes hands", "default/web", "default/db")
		p.Remove(controltest.Get[*corev1.Pod](p, "default", "a"))
		s.expect(t, "a pod that is gone", "default/db")
	})
}

// TestRoots checks that a key has the topmost owner that is known, and keeps it while its object lives.
func TestRoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		runner := p.Runner(s.declare)
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "app", UID: "uid-app",
			OwnerReferences: []metav1.OwnerReference{*reference("Site", "custom")},
		}}
		p.Load(deployment)
		p.Load(replicaSet("web", reference("Deployment", "app")))
		p.Load(replicaSet("alone", nil))
		p.Start()
		synctest.Wait() // A term begins when all informers hold whole views.
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		roots := map[string]types.UID{}
		for _, key := range s.take() {
			roots[key.Name] = key.Root
		}
		if roots["web"] != "uid-custom" || roots["alone"] != "uid-alone" {
			t.Errorf("got roots %v", roots)
		}
		controltest.Change(p, "default", "alone", func(rs *appsv1.ReplicaSet) {
			rs.OwnerReferences = []metav1.OwnerReference{*reference("Deployment", "app")}
		})
		for _, key := range s.take() {
			if key.Root != "uid-alone" {
				t.Errorf("the root of an adopted object became %s", key.Root)
			}
		}
	})
}

// TestOwnersInACircle checks that owners that own each other have a root.
func TestOwnersInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		p.Declare(s.declare)
		p.Load(replicaSet("a", reference("ReplicaSet", "b")))
		p.Load(replicaSet("b", reference("ReplicaSet", "a")))
		p.Start()
		s.expect(t, "a circle", "default/a", "default/b")
	})
}

// TestTerms checks that a controller can run again, and that a term leaves no handler behind.
func TestTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		runner := p.Runner(s.declare)
		p.Load(replicaSet("web", nil))
		p.Start()
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx) }()
			time.Sleep(time.Second)
			s.expect(t, "a term", "default/web")
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds++ })
			s.expect(t, "between terms")
		}
	})
}

// TestWanted checks that only the objects that a controller wants are reconciled.
func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			sets := controller.For[*appsv1.ReplicaSet](d)
			sets.Wanted = func(rs *appsv1.ReplicaSet) bool { return rs.Spec.MinReadySeconds > 0 }
			return &controller.Spec{Name: "test-controller", Resource: "replicasets", For: sets, Reconcile: s.reconcile}
		})
		wanted := replicaSet("wanted", nil)
		wanted.Spec.MinReadySeconds = 1
		p.Load(replicaSet("web", nil), wanted)
		p.Start()
		s.expect(t, "the first list", "default/wanted")
		ready := func(n int32) {
			controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = n })
		}
		ready(1)
		s.expect(t, "an object that becomes wanted", "default/web")
		ready(0)
		s.expect(t, "an object that is wanted no more")
		p.Remove(replicaSet("web", nil))
		s.expect(t, "the end of an object that is not wanted")
		p.Remove(wanted)
		s.expect(t, "the end of a wanted object", "default/wanted")
	})
}

// TestDelays checks that changes with a delay lead to one reconcile together.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			spec := s.declare(d)
			spec.For.(*controller.Objects[*appsv1.ReplicaSet]).Delay = func(_, now *appsv1.ReplicaSet) time.Duration {
				return time.Duration(now.Spec.MinReadySeconds) * time.Second
			}
			spec.Watches[0].(*controller.Owned[*corev1.Pod, *appsv1.ReplicaSet]).Delay = 10 * time.Second
			return spec
		})
		p.Load(replicaSet("web", nil))
		p.Start()
		s.expect(t, "a new object", "default/web")
		for i := range 5 {
			p.Load(pod(string(rune('a'+i)), "web", reference("ReplicaSet", "web")))
		}
		s.expect(t, "changes that wait")
		time.Sleep(10 * time.Second)
		if got := s.take(); len(got) != 1 {
			t.Errorf("five pods led to %d reconciles", len(got))
		}
		controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 20 })
		time.Sleep(15 * time.Second)
		s.expect(t, "an update that waits")
		time.Sleep(10 * time.Second)
		s.expect(t, "an update that has waited", "default/web")
	})
}

// TestPartsBeside checks that a part with a queue of its own runs while a term lasts, and that its
// declaration is checked.
func TestPartsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s, beside seen
		p := controltest.New(t)
		declare := func(d controller.Deps) *controller.Spec {
			spec := s.declare(d)
			spec.Beside = []*controller.Spec{{
				Name: "test-controller", Queue: "beside", Resource: "pods", For: controller.For[*corev1.Pod](d), Reconcile: beside.reconcile,
			}}
			return spec
		}
		runner := p.Runner(declare)
		p.Load(replicaSet("web", nil), pod("a", "other", nil))
		p.Start()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := runner.Run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			s.expect(t, "a term", "default/web")
			beside.expect(t, "a term, beside", "default/a")
		}
		broken := declare(p.Deps())
		broken.Beside[0].Reconcile = nil
		if _, err := controller.NewRunner(p.Deps(), broken); err == nil {
			t.Error("a part without a function is accepted")
		}
	})
}

// TestFinalizersOfAdoptedObjects checks that adoption adds the finalizers, and release removes them.
func TestFinalizersOfAdoptedObjects(t *testing.T) {
	const finalizer = "example.com/hold"
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			sets := controller.For[*appsv1.ReplicaSet](d)
			pods := controller.OwnedBy[*corev1.Pod](d, sets)
			pods.Finalizers = []string{finalizer}
			pods.Selects = func(rs *appsv1.ReplicaSet) (labels.Selector, error) {
				return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
			}
			return &controller.Spec{
				Name: "test-controller", Resource: "replicasets", For: sets, Watches: []controller.Watch{pods},
				Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
					rs, _ := sets.Get(key)
					candidates, err := pods.Of(rs)
					if err == nil {
						_, err = pods.Claim(ctx, rs, candidates)
					}
					return reconcile.Result{}, err
				},
			}
		})
		p.Load(replicaSet("web", nil), pod("a", "web", nil))
		p.Start()
		for _, app := range []string{"web", "other"} {
			controltest.Change(p, "default", "a", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} })
			time.Sleep(time.Second)
			got, owned := controltest.Get[*corev1.Pod](p, "default", "a"), app == "web"
			if len(got.Finalizers) == 1 != owned || len(got.OwnerReferences) == 1 != owned {
				t.Errorf("with the label %s: got finalizers %q and owners %v", app, got.Finalizers, got.OwnerReferences)
			}
		}
	})
}

// TestQuiet checks that objects which an owner controls ask for no reconcile of it if they are quiet, and orphans do.
func TestQuiet(t *testing.T) {
	for quiet, want := range map[bool][]string{false: {"default/web"}, true: nil} {
		synctest.Test(t, func(t *testing.T) {
			p := controltest.New(t)
			s := &seen{}
			p.Declare(func(d controller.Deps) *controller.Spec {
				spec := s.declare(d)
				spec.Watches[0].(*controller.Owned[*corev1.Pod, *appsv1.ReplicaSet]).Quiet = quiet
				return spec
			})
			owned := reference("ReplicaSet", "web")
			p.Load(replicaSet("web", nil), pod("a", "web", owned), pod("b", "web", owned))
			p.Start()
			time.Sleep(time.Second)
			s.expect(t, "the start", "default/web")
			if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), "default", "b", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			s.expect(t, fmt.Sprintf("a deletion, quiet %v", quiet), want...)
			controltest.Change(p, "default", "a", func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} })
			time.Sleep(time.Second)
			s.expect(t, fmt.Sprintf("a change, quiet %v", quiet), want...)
			controltest.Change(p, "default", "a", func(pod *corev1.Pod) { pod.OwnerReferences = nil })
			time.Sleep(time.Second)
			s.expect(t, "an orphan", "default/web")
		})
	}
}

// TestDeclarations checks that a declaration without what it needs is refused.
func TestDeclarations(t *testing.T) {
	p := controltest.New(t)
	d := p.Deps()
	var s seen
	for name, spoil := range map[string]func(*controller.Spec){
		"no name":     func(s *controller.Spec) { s.Name = "" },
		"no resource": func(s *controller.Spec) { s.Resource = "" },
		"no objects":  func(s *controller.Spec) { s.For = nil },
		"no function": func(s *controller.Spec) { s.Reconcile = nil },
	} {
		spec := s.declare(d)
		spoil(spec)
		if _, err := controller.NewRunner(d, spec); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
