package scale_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// to returns a change of a scale.
func to(replicas int32) func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	return func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		s.Spec.Replicas = replicas
		return s, nil
	}
}

// TestEveryWorkload scales each kind that has a scale.
func TestEveryWorkload(t *testing.T) {
	w := registrytest.New(t)
	pod := registrytest.Pod("")
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	selector, about := &metav1.LabelSelector{MatchLabels: pod.Labels}, metav1.ObjectMeta{Name: "web"}
	registrytest.Create(w, "default", &appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}})
	registrytest.Create(w, "default", &appsv1.ReplicaSet{ObjectMeta: about, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}})
	registrytest.Create(w, "default", &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}})
	registrytest.Create(w, "default", &corev1.ReplicationController{
		ObjectMeta: about, Spec: corev1.ReplicationControllerSpec{Selector: pod.Labels, Template: &template},
	})
	tested := 0
	for _, kind := range w.Table.Kinds() {
		if !kind.HasSubresource("scale") {
			continue
		}
		tested++
		t.Run(kind.Kind, func(t *testing.T) { checkScale(t, w.Resource(kind), "app=web") })
	}
	if tested != 4 {
		t.Errorf("%d kinds have a scale, want 4", tested)
	}
	if _, err := scale.Get(t.Context(), registrytest.Of[*corev1.ServiceAccount](w), "default", "default"); !apierrors.IsNotFound(err) {
		t.Errorf("the scale of a kind without one: %v", err)
	}
}

// checkScale scales the object web from 1 to 3 replicas.
func checkScale(t *testing.T, workloads *registry.Resource, selector string) {
	t.Helper()
	now, err := scale.Get(t.Context(), workloads, "default", "web")
	if err != nil || now.Spec.Replicas != 1 || now.Status.Selector != selector || now.UID == "" {
		t.Fatalf("the scale is %+v: %v", now, err)
	}
	set := func(ctx context.Context, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error), dryRun bool) (*autoscalingv1.Scale, error) {
		return scale.Update(ctx, workloads, "default", "web", change, registry.UpdateOptions{FieldManager: "scaler", DryRun: dryRun})
	}
	if tried, err := set(t.Context(), to(7), true); err != nil || tried.Spec.Replicas != 7 {
		t.Errorf("a dry run gave %+v: %v", tried, err)
	}
	if set, err := set(t.Context(), to(3), false); err != nil || set.Spec.Replicas != 3 || set.ResourceVersion == now.ResourceVersion {
		t.Errorf("scaled to %+v: %v", set, err)
	}
	if _, err := set(t.Context(), to(-1), false); !apierrors.IsInvalid(err) {
		t.Errorf("a negative scale: %v", err)
	}
	old := func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return now, nil }
	if _, err := set(t.Context(), old, false); !apierrors.IsConflict(err) {
		t.Errorf("a scale that was read before: %v", err)
	}
	obj, err := workloads.Get(t.Context(), "default", "web")
	if err != nil {
		t.Fatal(err)
	}
	owned := false
	for _, entry := range obj.GetManagedFields() {
		owned = owned || entry.Manager == "scaler" && entry.Subresource == "scale"
	}
	if !owned {
		t.Errorf("the replicas are owned by %+v", obj.GetManagedFields())
	}
}

// TestCustomKind scales a kind without a Go type, which says itself where its replicas are.
func TestCustomKind(t *testing.T) {
	w := registrytest.New(t)
	kind := &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}, Custom: true,
		Resource: "gadgets", Singular: "gadget", Namespaced: true, StoragePrefix: "example.org/gadgets",
		Subresources: []scheme.Subresource{{
			Name: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Verbs: []string{"get", "patch", "update"},
		}},
	}
	path := []string{"spec", "parts", "count"}
	content := func(obj scheme.Object) map[string]any { return obj.(*unstructured.Unstructured).Object }
	if err := w.Catalog.Install(&kinds.Definition{Kind: kind, Replicas: &kinds.Replicas{
		Path: path,
		Scale: func(obj scheme.Object) (kinds.Scale, error) {
			wanted, _, err := unstructured.NestedInt64(content(obj), path...)
			return kinds.Scale{Wanted: int32(wanted), Selector: labels.SelectorFromSet(labels.Set{"gadget": obj.GetName()})}, err
		},
		Set: func(obj scheme.Object, wanted int32) {
			_ = unstructured.SetNestedField(content(obj), int64(wanted), path...)
		},
	}}); err != nil {
		t.Fatal(err)
	}
	gadget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"parts": map[string]any{"count": int64(1)}}}}
	gadget.SetGroupVersionKind(kind.GroupVersionKind)
	gadget.SetName("web")
	gadgets := w.Resource(kind)
	if _, err := gadgets.Create(t.Context(), "default", gadget, metav1.CreateOptions{FieldManager: "me"}); err != nil {
		t.Fatal(err)
	}
	checkScale(t, gadgets, "gadget=web")
}
