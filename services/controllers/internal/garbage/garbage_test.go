package garbage

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, objs ...scheme.Object) *controltest.Plane {
	t.Helper()
	p := controltest.New(t, objs...)
	p.Allow("get list watch patch update delete *", controltest.Events)
	definitions := customresources.New(p.Deps())
	aggregated := aggregatedkinds.New(p.Deps())
	c := New(p.Deps(), definitions, aggregated, listwatch.New(p.Client, p.Config.Logger))
	p.Add(definitions.Follow)
	p.Add(aggregated.Run)
	p.Add(c.Follow)
	p.Add(c.Run)
	p.Start()
	settle()
	return p
}

func settle() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

func meta(namespace, name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid"), OwnerReferences: owners}
}

func owner(apiVersion, kind, name string, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name + "-uid"), BlockOwnerDeletion: &block}
}

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta("default", name)}
}

func set(name string, owners ...metav1.OwnerReference) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: meta("default", name, owners...)}
}

func pod(name string, owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta("default", name, owners...)}
}

// names lists what is left, as Kind/name.
func names(p *controltest.Plane) []string {
	var left []string
	for _, d := range controltest.List[*appsv1.Deployment](p) {
		left = append(left, "Deployment/"+d.Name)
	}
	for _, rs := range controltest.List[*appsv1.ReplicaSet](p) {
		left = append(left, "ReplicaSet/"+rs.Name)
	}
	for _, pod := range controltest.List[*corev1.Pod](p) {
		left = append(left, "Pod/"+pod.Name)
	}
	return left
}

func want(t *testing.T, p *controltest.Plane, wanted ...string) {
	t.Helper()
	if got := names(p); !slices.Equal(got, wanted) {
		t.Errorf("got %v left, want %v", got, wanted)
	}
}

func del[T scheme.Object](t *testing.T, p *controltest.Plane, name string, policy metav1.DeletionPropagation) {
	t.Helper()
	err := client.Of[T](p.Client).Delete(t.Context(), "default", name, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err != nil {
		t.Fatal(err)
	}
}

func family() []scheme.Object {
	return []scheme.Object{
		deployment("d"), set("rs", owner("apps/v1", "Deployment", "d", true)),
		pod("a", owner("apps/v1", "ReplicaSet", "rs", true)), pod("b", owner("apps/v1", "ReplicaSet", "rs", true)),
		pod("other"),
	}
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, family()...)
		want(t, p, "Deployment/d", "ReplicaSet/rs", "Pod/a", "Pod/b", "Pod/other")
		del[*appsv1.Deployment](t, p, "d", metav1.DeletePropagationBackground)
		settle()
		want(t, p, "Pod/other")
	})
}

func TestForeground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, family()...)
		controltest.Change(p, "default", "a", func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} })
		del[*appsv1.Deployment](t, p, "d", metav1.DeletePropagationForeground)
		settle()
		// The pod that is held keeps its owners.
		want(t, p, "Deployment/d", "ReplicaSet/rs", "Pod/a", "Pod/other")
		controltest.Change(p, "default", "a", func(pod *corev1.Pod) { pod.Finalizers = nil })
		settle()
		want(t, p, "Pod/other")
	})
}

func TestForegroundIgnoresNonBlockingDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := pod("a", owner("apps/v1", "ReplicaSet", "rs", false))
		held.Finalizers = []string{"example.com/hold"}
		p := start(t, set("rs"), held)
		del[*appsv1.ReplicaSet](t, p, "rs", metav1.DeletePropagationForeground)
		settle()
		want(t, p, "Pod/a")
		if controltest.Get[*corev1.Pod](p, "default", "a").DeletionTimestamp == nil {
			t.Error("the dependent was not deleted")
		}
	})
}

func TestOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, family()...)
		del[*appsv1.ReplicaSet](t, p, "rs", metav1.DeletePropagationOrphan)
		settle()
		want(t, p, "Deployment/d", "Pod/a", "Pod/b", "Pod/other")
		for _, name := range []string{"a", "b"} {
			if refs := controltest.Get[*corev1.Pod](p, "default", name).OwnerReferences; len(refs) != 0 {
				t.Errorf("owners of %s: got %v", name, refs)
			}
		}
	})
}

func TestOneOwnerLeftIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, set("x"), set("y"), pod("a", owner("apps/v1", "ReplicaSet", "x", true), owner("apps/v1", "ReplicaSet", "y", true)))
		del[*appsv1.ReplicaSet](t, p, "x", metav1.DeletePropagationBackground)
		settle()
		want(t, p, "ReplicaSet/y", "Pod/a")
		refs := controltest.Get[*corev1.Pod](p, "default", "a").OwnerReferences
		if len(refs) != 1 || refs[0].Name != "y" {
			t.Errorf("got owners %v", refs)
		}
	})
}

func TestLateDependentOfDeletedOwnerIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod("late", owner("apps/v1", "ReplicaSet", "never", true)))
		settle()
		want(t, p)
	})
}

func TestAnotherOfTheSameNameIsNoOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		impostor := set("rs")
		impostor.UID = "another"
		p := start(t, impostor, pod("a", owner("apps/v1", "ReplicaSet", "rs", true)))
		want(t, p, "ReplicaSet/rs")
	})
}

func TestUnknownOwnersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: meta("", "n", owner("v1", "Pod", "gone", true))}
		p := start(t, node, pod("custom", owner("example.com/v1", "Widget", "w", true)))
		want(t, p, "Pod/custom")
		if nodes := controltest.List[*corev1.Node](p); len(nodes) != 1 {
			t.Error("a cluster-wide object was deleted for its namespaced owner")
		}
	})
}

func TestOwnersInAnotherNamespaceDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &appsv1.ReplicaSet{ObjectMeta: meta("far", "rs")}
		p := start(t, far, pod("a", owner("apps/v1", "ReplicaSet", "rs", true)))
		want(t, p, "ReplicaSet/rs")
		if events := p.Events("OwnerRefInvalidNamespace"); len(events) != 1 {
			t.Errorf("got events %q", events)
		}
	})
}

func TestClusterWideOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, &corev1.Node{ObjectMeta: meta("", "n")}, pod("a", owner("v1", "Node", "n", false)))
		want(t, p, "Pod/a")
		p.Remove(&corev1.Node{ObjectMeta: meta("", "n")})
		settle()
		want(t, p)
	})
}

func TestCycleOfForegroundDeletionsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, set("x", owner("apps/v1", "ReplicaSet", "y", true)), set("y", owner("apps/v1", "ReplicaSet", "x", true)))
		del[*appsv1.ReplicaSet](t, p, "x", metav1.DeletePropagationForeground)
		time.Sleep(time.Minute)
		settle()
		want(t, p)
	})
}

func TestTheAPIIsAskedBeforeADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, family()...)
		// The graph learns that the owner is gone; the API, when asked, says that it exists.
		p.Fail(func(call client.Call) error {
			if call.Verb == "get" && call.Kind.Resource == "replicasets" {
				return apierrors.NewServiceUnavailable("not now")
			}
			return nil
		})
		p.Remove(set("rs"))
		settle()
		want(t, p, "Deployment/d", "Pod/a", "Pod/b", "Pod/other")
		p.Fail(nil)
		time.Sleep(30 * time.Minute)
		settle()
		want(t, p, "Deployment/d", "Pod/other")
	})
}

func TestManyDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objs := []scheme.Object{set("rs")}
		for i := range 200 {
			objs = append(objs, pod(fmt.Sprint("p", i), owner("apps/v1", "ReplicaSet", "rs", true)))
		}
		p := start(t, objs...)
		del[*appsv1.ReplicaSet](t, p, "rs", metav1.DeletePropagationForeground)
		settle()
		want(t, p)
	})
}

// TestAnAbsentOwnerIsReadOnce checks that of many dependents only the first few cost a read of their owner
// and one of themselves.
func TestAnAbsentOwnerIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		objs := []scheme.Object{set("rs"), set("other")}
		for i := range many {
			objs = append(objs, pod(fmt.Sprint("p", i), owner("apps/v1", "ReplicaSet", "rs", false)))
		}
		p := start(t, objs...)
		p.ClearCalls()
		del[*appsv1.ReplicaSet](t, p, "rs", metav1.DeletePropagationBackground)
		settle()
		want(t, p, "ReplicaSet/other")
		reads, deletions := 0, 0
		for _, call := range p.Calls() {
			switch call.Verb {
			case "get":
				reads++
			case "delete":
				deletions++
			}
		}
		if reads > 2*workers || deletions != many+1 {
			t.Errorf("got %d reads and %d deletions, want at most %d and %d", reads, deletions, 2*workers, many+1)
		}
	})
}

// TestWhatIsKnownIsTooOld checks that a dependent that got a living owner meanwhile stays.
func TestWhatIsKnownIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, set("rs"), set("other"), pod("a", owner("apps/v1", "ReplicaSet", "gone", false)))
		want(t, p, "ReplicaSet/other", "ReplicaSet/rs")
		definitions := customresources.New(p.Deps())
		c := New(p.Deps(), definitions, aggregatedkinds.New(p.Deps()), listwatch.New(p.Client, p.Config.Logger))
		kind := c.kinds.Get()[kindOf(owner("apps/v1", "ReplicaSet", "gone", false))]
		c.graph.noteAbsent(identity{kind: kind, namespace: "default", name: "gone", uid: "gone-uid"})
		pods := c.kinds.Get()[kindOf(owner("v1", "Pod", "b", false))]
		created := controltest.Create(p, pod("b", owner("apps/v1", "ReplicaSet", "rs", false)))
		old := node{
			identity: identity{kind: pods, namespace: "default", name: "b", uid: created.UID}, revision: 1,
			owners: []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", "gone", false)},
		}
		if done, err := c.collectKnown(t.Context(), old); done || err != nil {
			t.Errorf("got %t, %v, want another look", done, err)
		}
		want(t, p, "ReplicaSet/other", "ReplicaSet/rs", "Pod/b")
	})
}
