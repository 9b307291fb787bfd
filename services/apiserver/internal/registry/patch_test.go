package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// patchable returns the fields that random patches change: the system's, immutable ones, and ones
// that may be changed.
func patchable() []string {
	return []string{
		"metadata.uid", "metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds",
		"metadata.generation", "metadata.name", "metadata.namespace", "metadata.resourceVersion", "metadata.selfLink",
		"metadata.labels.app", "metadata.annotations.a", "metadata.managedFields", "metadata.ownerReferences",
		"spec.selector.matchLabels.app", "spec.template.metadata.labels.app", "spec.replicas", "spec.paused", "spec.strategy",
		"spec.nodeName", "spec.containers", "spec.activeDeadlineSeconds", "spec.clusterIP", "spec.clusterIPs", "spec.type",
		"spec.ports", "status", "status.replicas", "status.phase", "kind", "apiVersion",
	}
}

func patchValue() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Just(any(nil)), rapid.Just[any]("x"), rapid.Just[any](""), rapid.Just[any]("2020-01-01T00:00:00Z"), rapid.Just[any](float64(0)),
		rapid.Just[any](float64(-3)), rapid.Just[any](true), rapid.Just[any](map[string]any{}), rapid.Just[any]([]any{}),
		rapid.Just[any](map[string]any{"phase": "Running", "replicas": 1}), rapid.Just[any]([]any{map[string]any{"name": "x", "port": 81}}),
	)
}

// drawPatch draws a merge patch of a few fields.
func drawPatch(t *rapid.T) []byte {
	patch := map[string]any{}
	for range rapid.IntRange(1, 3).Draw(t, "count") {
		path := strings.Split(rapid.SampledFrom(patchable()).Draw(t, "field"), ".")
		at := patch
		for _, name := range path[:len(path)-1] {
			child, ok := at[name].(map[string]any)
			if !ok {
				child = map[string]any{}
				at[name] = child
			}
			at = child
		}
		at[path[len(path)-1]] = patchValue().Draw(t, "value")
	}
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestNoPatchChangesSystemFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create(w, "default", newPod("x"))
	create(w, "default", newDeployment("x"))
	create(w, "default", newService("x"))
	rapid.Check(t, func(rt *rapid.T) {
		var kind *scheme.Kind
		switch rapid.IntRange(0, 2).Draw(rt, "kind") {
		case 0:
			kind = scheme.For[*corev1.Pod](w.Table)
		case 1:
			kind = scheme.For[*appsv1.Deployment](w.Table)
		default:
			kind = scheme.For[*corev1.Service](w.Table)
		}
		subresource := rapid.SampledFrom([]string{"", "status"}).Draw(rt, "subresource")
		patch := drawPatch(rt)
		resource := w.Resource(kind)
		before, err := resource.Get(t.Context(), "default", "x")
		if err != nil {
			rt.Fatal(err)
		}
		_, err = resource.Update(t.Context(), "default", "x", func(current scheme.Object) (scheme.Object, error) {
			data, err := json.Marshal(current)
			if err != nil {
				return nil, err
			}
			if data, err = jsonpatch.MergePatch(data, patch); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			obj := kind.New()
			if err := json.Unmarshal(data, obj); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			return obj, nil
		}, registry.UpdateOptions{Subresource: subresource})
		if err != nil && apierrors.ReasonForError(err) == "" {
			rt.Fatalf("%s returns an error that is not an API error: %v", patch, err)
		}
		after, getErr := resource.Get(t.Context(), "default", "x")
		if getErr != nil {
			rt.Fatal(getErr)
		}
		if err != nil && after.GetResourceVersion() != before.GetResourceVersion() {
			rt.Fatalf("%s was refused (%v) and written", patch, err)
		}
		created := before.GetCreationTimestamp()
		if after.GetUID() != before.GetUID() || !created.Equal(new(after.GetCreationTimestamp())) || after.GetName() != "x" ||
			after.GetNamespace() != "default" || after.GetDeletionTimestamp() != nil || managedfields.Check(after.GetManagedFields()) != nil ||
			after.GetGeneration() < before.GetGeneration() || after.GetObjectKind().GroupVersionKind() != kind.GroupVersionKind {
			rt.Fatalf("%s on %q made %+v of %+v", patch, subresource, after, before)
		}
		switch now := after.(type) {
		case *appsv1.Deployment:
			if now.Spec.Selector.MatchLabels["app"] != "x" {
				rt.Fatalf("%s changed the selector", patch)
			}
		case *corev1.Service:
			had := before.(*corev1.Service)
			if had.Spec.Type == now.Spec.Type && had.Spec.ClusterIP != now.Spec.ClusterIP {
				rt.Fatalf("%s changed the address", patch)
			}
		}
	})
}
