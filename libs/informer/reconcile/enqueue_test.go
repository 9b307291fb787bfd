package reconcile_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
)

var replicaSet = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}

// owned returns a pod with a controller, or without one if owner is empty.
func owned(owner, apiVersion string, generation int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Generation: generation, ResourceVersion: "1"}}
	if owner != "" {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "not-a-controller"},
			{APIVersion: apiVersion, Kind: "ReplicaSet", Name: owner, Controller: &yes},
		}
	}
	return pod
}

// TestEnqueue covers items 150 and 151.
func TestEnqueue(t *testing.T) {
	type handler = informer.ResourceEventHandler[*corev1.Pod]
	a, b := owned("a", "apps/v1", 1), owned("b", "apps/v1", 1)
	for _, tt := range []struct {
		name string
		make func(func(string)) handler
		do   func(handler)
		want []string
	}{
		{"object added", object, func(h handler) { h.OnAdd(a, true) }, []string{"default/p"}},
		{"object updated", object, func(h handler) { h.OnUpdate(a, b) }, []string{"default/p"}},
		{"object deleted", object, func(h handler) { h.OnDelete(informer.DeletedObject[*corev1.Pod]{Key: "default/p", OptionalObj: a}) }, []string{"default/p"}},
		{"nil objects", object, func(h handler) {
			h.OnAdd(nil, false)
			h.OnUpdate(nil, a)
			h.OnUpdate(a, nil)
		}, nil},
		{"deleted, no state known", object, func(h handler) {
			h.OnDelete(informer.DeletedObject[*corev1.Pod]{Key: "default/p", FinalStateUnknown: true})
		}, []string{"default/p"}},
		{"owner of a deleted object of no known state", owner, func(h handler) { h.OnDelete(informer.DeletedObject[*corev1.Pod]{Key: "default/p"}) }, nil},
		{"owner", owner, func(h handler) { h.OnAdd(a, false) }, []string{"default/a"}},
		{"owner of an orphan", owner, func(h handler) { h.OnAdd(owned("", "", 1), false) }, nil},
		{"owner of another group", owner, func(h handler) { h.OnAdd(owned("a", "example.com/v1", 1), false) }, nil},
		{"owner with a bad version", owner, func(h handler) { h.OnAdd(owned("a", "a/b/c", 1), false) }, nil},
		{"owner in another version", owner, func(h handler) { h.OnAdd(owned("a", "apps/v1beta2", 1), false) }, []string{"default/a"}},
		{"both owners", owner, func(h handler) { h.OnUpdate(a, b) }, []string{"default/b", "default/a"}},
		{"one owner once", owner, func(h handler) { h.OnUpdate(a, a) }, []string{"default/a"}},
		{"released", owner, func(h handler) { h.OnUpdate(a, owned("", "", 1)) }, []string{"default/a"}},
		{"owner of a deleted object", owner, func(h handler) { h.OnDelete(informer.DeletedObject[*corev1.Pod]{OptionalObj: a}) }, []string{"default/a"}},
		{"refused", func(enqueue func(string)) handler {
			return reconcile.EnqueueObject(enqueue, reconcile.GenerationChanged[*corev1.Pod]())
		}, func(h handler) { h.OnUpdate(a, b) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var keys []string
			tt.do(tt.make(func(key string) { keys = append(keys, key) }))
			if !slices.Equal(keys, tt.want) {
				t.Errorf("keys %q, want %q", keys, tt.want)
			}
		})
	}
}

func object(enqueue func(string)) informer.ResourceEventHandler[*corev1.Pod] {
	return reconcile.EnqueueObject[*corev1.Pod](enqueue)
}

func owner(enqueue func(string)) informer.ResourceEventHandler[*corev1.Pod] {
	return reconcile.EnqueueOwner[*corev1.Pod](enqueue, replicaSet)
}

// TestEnqueueClusterWide checks that a cluster-wide object's key is its name.
func TestEnqueueClusterWide(t *testing.T) {
	var keys []string
	h := reconcile.EnqueueObject[*corev1.Node](func(key string) { keys = append(keys, key) })
	h.OnAdd(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, false)
	if !slices.Equal(keys, []string{"n"}) {
		t.Errorf("keys %q", keys)
	}
}

// TestPredicates covers item 149.
func TestPredicates(t *testing.T) {
	type predicate = reconcile.Predicate[*appsv1.Deployment]
	yes, no := predicate{}, predicate{
		Create: func(*appsv1.Deployment) bool { return false },
		Update: func(_, _ *appsv1.Deployment) bool { return false },
		Delete: func(informer.DeletedObject[*appsv1.Deployment]) bool { return false },
	}
	never := predicate{Create: func(*appsv1.Deployment) bool { panic("asked") }}
	generation, version := reconcile.GenerationChanged[*appsv1.Deployment](), reconcile.ResourceVersionChanged[*appsv1.Deployment]()
	for _, tt := range []struct {
		name string
		p    predicate
		// want is the result for an add, an update of only the status, an update of the spec, and a
		// resync.
		want [4]bool
	}{
		{"nil functions pass", yes, [4]bool{true, true, true, true}},
		{"generation", generation, [4]bool{true, false, true, false}},
		{"resource version", version, [4]bool{true, true, true, false}},
		{"labels", reconcile.LabelChanged[*appsv1.Deployment](), [4]bool{true, false, true, false}},
		{"annotations", reconcile.AnnotationChanged[*appsv1.Deployment](), [4]bool{true, true, false, false}},
		{"spec or annotations", reconcile.Or(generation, reconcile.AnnotationChanged[*appsv1.Deployment]()), [4]bool{true, true, true, false}},
		{"empty and", reconcile.And[*appsv1.Deployment](), [4]bool{true, true, true, true}},
		{"empty or", reconcile.Or[*appsv1.Deployment](), [4]bool{}},
		{"and", reconcile.And(version, generation), [4]bool{true, false, true, false}},
		{"or", reconcile.Or(generation, version), [4]bool{true, true, true, false}},
		{"not", reconcile.Not(generation), [4]bool{false, true, false, true}},
		{"and stops", reconcile.And(no, never), [4]bool{}},
		{"or stops", reconcile.Or(yes, never), [4]bool{true, true, true, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Generation: 1, ResourceVersion: "1"}}
			status, spec := old.DeepCopy(), old.DeepCopy()
			status.ResourceVersion, spec.ResourceVersion, spec.Generation = "2", "2", 2
			status.Annotations, spec.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
			var passed bool
			h := reconcile.EnqueueObject(func(string) { passed = true }, tt.p)
			for i, do := range []func(){
				func() { h.OnAdd(old, false) }, func() { h.OnUpdate(old, status) },
				func() { h.OnUpdate(old, spec) }, func() { h.OnUpdate(old, old) },
			} {
				passed = false
				do()
				if passed != tt.want[i] {
					t.Errorf("event %d passed: %v", i, passed)
				}
			}
		})
	}
}

// TestPredicatesRefuseNil checks that a predicate that compares states rejects an update without
// one of them (item 149).
func TestPredicatesRefuseNil(t *testing.T) {
	some := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2, ResourceVersion: "2", Labels: map[string]string{"a": "b"}}}
	for i, p := range []reconcile.Predicate[*appsv1.Deployment]{
		reconcile.GenerationChanged[*appsv1.Deployment](), reconcile.ResourceVersionChanged[*appsv1.Deployment](),
		reconcile.LabelChanged[*appsv1.Deployment](), reconcile.AnnotationChanged[*appsv1.Deployment](),
	} {
		if p.Update(nil, some) || p.Update(some, nil) || p.Update(nil, nil) {
			t.Errorf("predicate %d passed a nil object", i)
		}
		if p.Create != nil || p.Delete != nil {
			t.Errorf("predicate %d judges more than updates", i)
		}
	}
}

// TestExpectations covers items 147 and 148.
func TestExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e reconcile.Expectations
		satisfied := func(want bool, when string) {
			t.Helper()
			if e.Satisfied("k") != want {
				t.Errorf("%s: satisfied is %v", when, !want)
			}
		}
		satisfied(true, "nothing expected")
		e.CreationObserved("k")
		e.DeletionObserved("k", "u")
		satisfied(true, "observed without an expectation")
		e.ExpectCreations("k", 2)
		e.CreationObserved("k")
		satisfied(false, "one of two created")
		e.CreationObserved("k")
		satisfied(true, "both created")
		e.CreationObserved("k")
		satisfied(true, "one more created")
		e.ExpectCreations("k", 1)
		satisfied(false, "an expectation replaces the earlier one")
		e.CreationObserved("k")

		e.ExpectDeletions("k", []string{"1", "2"})
		e.DeletionObserved("k", "1")
		e.DeletionObserved("k", "1")
		e.DeletionObserved("k", "3")
		satisfied(false, "one uid deleted twice")
		e.DeletionObserved("k", "2")
		satisfied(true, "both uids deleted")

		e.RaiseCreations("other", 1)
		if !e.Satisfied("other") {
			t.Error("raising created an expectation")
		}
		e.ExpectCreations("k", 1)
		e.RaiseCreations("k", 2)
		e.LowerCreations("k", 2)
		satisfied(false, "one of three is left")
		e.LowerCreations("k", 5)
		satisfied(true, "below zero")
		e.ExpectDeletions("k", []string{"1"})
		e.ExpectCreations("k", 1)
		e.CreationObserved("k")
		satisfied(true, "creations replaced the deletions")

		e.ExpectDeletions("k", []string{"1"})
		time.Sleep(5 * time.Minute)
		satisfied(false, "after five minutes")
		time.Sleep(time.Second)
		satisfied(true, "after more than five minutes")
		e.ExpectCreations("k", 1)
		e.Delete("k")
		satisfied(true, "forgotten")
	})
}

func TestSplitKey(t *testing.T) {
	for _, tt := range []struct {
		key, namespace, name string
		fails                bool
	}{
		{"a", "", "a", false}, {"ns/a", "ns", "a", false}, {"", "", "", true}, {"/", "", "", true},
		{"/a", "", "", true}, {"ns/", "", "", true}, {"a/b/c", "", "", true},
	} {
		namespace, name, err := reconcile.SplitKey(tt.key)
		if namespace != tt.namespace || name != tt.name || (err != nil) != tt.fails {
			t.Errorf("%q returned %q, %q, %v", tt.key, namespace, name, err)
		}
	}
}

func FuzzSplitKey(f *testing.F) {
	for _, key := range []string{"", "a", "a/b", "a/b/c", "/", "/a", "a/"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		namespace, name, err := reconcile.SplitKey(key)
		if err != nil {
			if namespace != "" || name != "" {
				t.Errorf("%q returned %q and %q with an error", key, namespace, name)
			}
			return
		}
		if name == "" || informer.KeyOf(namespace, name) != key {
			t.Errorf("%q returned %q and %q", key, namespace, name)
		}
	})
}
