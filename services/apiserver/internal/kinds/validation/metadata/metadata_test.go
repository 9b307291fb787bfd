package metadata

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestFinalizers(t *testing.T) {
	unqualified := `metadata.finalizers[1]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified`
	meta := func(finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "x", Namespace: "default", Finalizers: finalizers}
	}
	configMap := metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	lease := metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	for _, test := range []struct {
		name string
		obj  interface {
			runtime.Object
			metav1.Object
		}
		want string
	}{
		{"qualified", &corev1.ConfigMap{TypeMeta: configMap, ObjectMeta: meta("example.com/mine")}, ""},
		{"Kubernetes' own", &corev1.ConfigMap{TypeMeta: configMap, ObjectMeta: meta("kubernetes", "orphan")}, ""},
		{"foreground", &corev1.ConfigMap{TypeMeta: configMap, ObjectMeta: meta("foregroundDeletion")}, ""},
		{"without a domain", &corev1.ConfigMap{TypeMeta: configMap, ObjectMeta: meta("example.com/mine", "mine")}, unqualified},
		{"of an event", &corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ObjectMeta: meta("mine")}, ""},
		{"of a kind that takes any", &coordinationv1.Lease{TypeMeta: lease, ObjectMeta: meta("mine")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if errs := Validate(test.obj, true, nil); len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	found := field.ErrorList{field.Required(field.NewPath("spec"), "")}
	both := Validate(&corev1.ConfigMap{TypeMeta: configMap, ObjectMeta: meta("example.com/mine", "mine")}, true, found)
	if got, want := both.ToAggregate().Error(), "[spec: Required value, "+unqualified+"]"; got != want {
		t.Errorf("beside another error: got %q, want %q", got, want)
	}
}

func TestScope(t *testing.T) {
	node := metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	for _, tc := range []struct {
		namespace  string
		namespaced bool
		want       string
	}{
		{"default", true, ""},
		{"", false, ""},
		{"", true, "metadata.namespace: Required value"},
		{"default", false, "metadata.namespace: Forbidden: not allowed on this type"},
	} {
		got := ""
		if errs := Validate(&corev1.Node{TypeMeta: node, ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: tc.namespace}}, tc.namespaced, nil); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != tc.want {
			t.Errorf("namespace %q, namespaced %t: got %q, want %q", tc.namespace, tc.namespaced, got, tc.want)
		}
	}
}
