package managedfields_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// TestEveryKindHasItsFields writes an object of every stored kind, and applies to it.
func TestEveryKindHasItsFields(t *testing.T) {
	table := scheme.New()
	owners := managedfields.New(managedfields.Config{Table: table})
	for _, kind := range table.Kinds() {
		if kind.Virtual {
			continue
		}
		t.Run(kind.GroupVersion().String()+kind.Kind, func(t *testing.T) {
			obj := kind.New()
			obj.SetName("x")
			obj.SetLabels(map[string]string{"a": "b"})
			owners.Update(kind, "", kind.New(), obj, "me")
			entries := obj.GetManagedFields()
			if len(entries) != 1 || entries[0].APIVersion != kind.GroupVersion().String() || entries[0].Manager != "me" ||
				!strings.Contains(entries[0].FieldsV1.String(), `"f:metadata":{"f:labels":{".":{},"f:a":{}}}`) {
				t.Errorf("owned by %+v", entries)
			}
			if kind.HasSubresource("status") && strings.Contains(entries[0].FieldsV1.String(), "f:status") {
				t.Errorf("the creator of an object owns its status: %s", entries[0].FieldsV1)
			}
			wanted := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
				"metadata": map[string]any{"name": "x", "labels": map[string]any{"c": "d"}},
			}}
			applied, err := owners.Apply(kind, "", obj, wanted, "you", false)
			if err != nil {
				t.Fatal(err)
			}
			if len(applied.GetManagedFields()) != 2 || applied.GetLabels()["c"] != "d" || applied.GetLabels()["a"] != "b" {
				t.Errorf("applied to %+v", applied)
			}
			if wanted.GetName() != "x" || len(obj.GetLabels()) != 1 {
				t.Error("the wanted or the live object has changed")
			}
		})
	}
}

func TestPartsOwnWhatTheyWrite(t *testing.T) {
	table := scheme.New()
	owners := managedfields.New(managedfields.Config{Table: table})
	kind := scheme.For[*corev1.Pod](table)
	pod := func() *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
		pod.SetGroupVersionKind(kind.GroupVersionKind)
		return pod
	}
	live := pod()
	owners.Update(kind, "", kind.New(), live, "me")
	changed := func() *corev1.Pod {
		obj := live.DeepCopy()
		obj.Labels = map[string]string{"a": "b"}
		obj.OwnerReferences = []metav1.OwnerReference{{UID: "o"}}
		obj.Spec.Hostname = "h"
		obj.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: {}}
		obj.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
		obj.Status.Phase = corev1.PodRunning
		return obj
	}
	for part, want := range map[string]struct{ owns, leaves []string }{
		"": {
			[]string{"f:labels", "f:ownerReferences", "f:hostname", "f:limits", "f:ephemeralContainers"}, []string{"f:status"},
		},
		"status":              {[]string{"f:labels", "f:status"}, []string{"f:spec", "f:ownerReferences"}},
		"ephemeralcontainers": {[]string{"f:ephemeralContainers"}, []string{"f:labels", "f:hostname", "f:limits", "f:status"}},
		"resize":              {[]string{"f:limits"}, []string{"f:labels", "f:hostname", "f:ephemeralContainers", "f:status"}},
	} {
		obj := changed()
		owners.Update(kind, part, live, obj, "you")
		i := slices.IndexFunc(obj.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "you" })
		if i < 0 || obj.ManagedFields[i].Subresource != part {
			t.Errorf("through %q owned by %+v", part, obj.ManagedFields)
			continue
		}
		fields := obj.ManagedFields[i].FieldsV1.String()
		for _, field := range want.owns {
			if !strings.Contains(fields, field) {
				t.Errorf("through %q %s has no owner: %s", part, field, fields)
			}
		}
		for _, field := range want.leaves {
			if strings.Contains(fields, field) {
				t.Errorf("through %q %s has a new owner: %s", part, field, fields)
			}
		}
	}
}

// TestADeadVersionsOwnersAreForgotten has owners of a version that is no longer served.
func TestADeadVersionsOwnersAreForgotten(t *testing.T) {
	table := scheme.New()
	owners := managedfields.New(managedfields.Config{Table: table})
	kind := scheme.For[*corev1.ConfigMap](table)
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}, Data: map[string]string{"a": "b"}}
	owners.Update(kind, "", kind.New(), live, "me")
	dead := live.ManagedFields[0]
	dead.Manager, dead.APIVersion = "dead", "v0"
	live.ManagedFields = append(live.ManagedFields, dead)
	obj := live.DeepCopy()
	obj.Data["a"] = "c"
	owners.Update(kind, "", live, obj, "you")
	var names []string
	for _, entry := range obj.ManagedFields {
		names = append(names, entry.Manager)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"me", "you"}) {
		t.Errorf("owned by %q", names)
	}
}

func TestWriter(t *testing.T) {
	for _, c := range []struct{ given, agent, want string }{
		{"me", "kubectl/v1.37", "me"},
		{"", "kubectl/v1.37 (linux)", "kubectl"},
		{"", "kub\x00ect\u200bl", "kubectl"},
		{"", "", "unknown"},
		{"", "/x", "unknown"},
		{"", strings.Repeat("é", 100) + "/x", strings.Repeat("é", 64)},
	} {
		if got := managedfields.Writer(c.given, c.agent); got != c.want {
			t.Errorf("Writer(%q, %q) is %q, want %q", c.given, c.agent, got, c.want)
		}
	}
}
