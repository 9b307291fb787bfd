package namespace

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *controltest.Plane {
	t.Helper()
	return startOn(t, controltest.New(t))
}

func startOn(t *testing.T, p *controltest.Plane) *controltest.Plane {
	t.Helper()
	p.Allow("update /namespaces/finalize", "update /namespaces/status", "get list watch delete deletecollection *")
	definitions := customresources.New(p.Deps())
	aggregated := aggregatedkinds.New(p.Deps())
	p.Add(definitions.Follow)
	p.Add(aggregated.Run)
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, definitions, aggregated) })
	p.Start()
	for _, name := range []string{"x", "y"} {
		controltest.Create(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		controltest.Create(p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "c"}})
		controltest.Create(p, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "s"}})
		controltest.Create(p, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "d"}})
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}})
	}
	return p
}

func remove(t *testing.T, p *controltest.Plane, name string) {
	t.Helper()
	if err := client.Of[*corev1.Namespace](p.Client).Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func condition(namespace *corev1.Namespace, kind corev1.NamespaceConditionType) corev1.NamespaceCondition {
	for _, c := range namespace.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NamespaceCondition{}
}

func TestPodsGoFirstAndThenTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		remove(t, p, "x")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		pod := controltest.Get[*corev1.Pod](p, "x", "p")
		if pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 30 {
			t.Errorf("the pod did not get its grace period: %+v", pod.ObjectMeta)
		}
		controltest.Get[*corev1.Secret](p, "x", "s") // What the pod may use is still there.
		x := controltest.Get[*corev1.Namespace](p, "", "x")
		if c := condition(x, corev1.NamespaceContentRemaining); x.Status.Phase != corev1.NamespaceTerminating || c.Status != corev1.ConditionTrue ||
			c.Reason != "SomeResourcesRemain" || c.Message != "Some resources are remaining: pods. has 1 resource instances" {
			t.Errorf("got phase %s, remaining %+v", x.Status.Phase, c)
		}
		p.Remove(pod)
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := controltest.List[*corev1.Namespace](p); len(left) != 1 || left[0].Name != "y" {
			t.Fatalf("got %d namespaces left, want 1", len(left))
		}
		for _, secret := range controltest.List[*corev1.Secret](p) {
			if secret.Namespace == "x" {
				t.Error("a secret is left")
			}
		}
		controltest.Get[*corev1.Pod](p, "y", "p")
		controltest.Get[*appsv1.Deployment](p, "y", "d")
	})
}

func TestFinalizersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
		controltest.Change(p, "x", "c", func(m *corev1.ConfigMap) { m.Finalizers = []string{"example.com/hold"} })
		remove(t, p, "x")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		x := controltest.Get[*corev1.Namespace](p, "", "x")
		if c := condition(x, corev1.NamespaceFinalizersRemaining); c.Status != corev1.ConditionTrue ||
			c.Message != "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances" {
			t.Errorf("got finalizers %+v", c)
		}
		if c := condition(x, corev1.NamespaceDeletionContentFailure); c.Status != corev1.ConditionFalse || c.Reason != "ContentDeleted" {
			t.Errorf("got failure condition %+v", c)
		}
		controltest.Change(p, "x", "c", func(m *corev1.ConfigMap) { m.Finalizers = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		if slices.ContainsFunc(controltest.List[*corev1.Namespace](p), func(n *corev1.Namespace) bool { return n.Name == "x" }) {
			t.Error("the namespace is left")
		}
	})
}

func TestFailuresAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
		var broken atomic.Bool
		broken.Store(true)
		p.Fail(func(call client.Call) error {
			if broken.Load() && call.Verb == "deletecollection" && call.Kind.Resource == "secrets" {
				return errors.New("no secrets today")
			}
			return nil
		})
		remove(t, p, "x")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		c := condition(controltest.Get[*corev1.Namespace](p, "", "x"), corev1.NamespaceDeletionContentFailure)
		if c.Status != corev1.ConditionTrue || c.Reason != "ContentDeletionFailed" || !strings.Contains(c.Message, "no secrets today") {
			t.Errorf("got failure condition %+v", c)
		}
		broken.Store(false)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n := len(controltest.List[*corev1.Namespace](p)); n != 1 {
			t.Errorf("got %d namespaces left, want 1", n)
		}
	})
}

func TestOthersFinalizersAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Remove(controltest.Get[*corev1.Pod](p, "x", "p"))
		x := controltest.Get[*corev1.Namespace](p, "", "x")
		x.Spec.Finalizers = append(x.Spec.Finalizers, "example.com/mine")
		if _, err := client.Of[*corev1.Namespace](p.Client).UpdateSubresource(t.Context(), x, "finalize", metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		remove(t, p, "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := controltest.Get[*corev1.Namespace](p, "", "x").Spec.Finalizers; len(got) != 1 || got[0] != "example.com/mine" {
			t.Errorf("got finalizers %v", got)
		}
	})
}

func TestALivingNamespaceIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.ClearCalls()
		controltest.Change(p, "", "x", func(n *corev1.Namespace) { n.Labels = map[string]string{"a": "b"} })
		time.Sleep(time.Minute)
		synctest.Wait()
		if writes := p.Writes(); len(writes) != 1 {
			t.Errorf("got %d writes, want none", len(writes))
		}
	})
}
