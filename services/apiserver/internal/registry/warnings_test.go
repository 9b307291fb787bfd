package registry_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// TestWarningsOfChanges checks that a client gets the warnings about pods when it creates a workload or
// changes its spec, and none when it changes anything else.
func TestWarningsOfChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var warnings []string
	ctx := admission.WithWarnings(t.Context(), func(text string) { warnings = append(warnings, text) })
	labels := map[string]string{"a": "b"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "a", Image: "b"}}, NodeSelector: map[string]string{"beta.kubernetes.io/os": "linux"},
		}},
	}}
	deployments := resource[*appsv1.Deployment](w)
	if _, err := deployments.Create(ctx, "default", d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*appsv1.Deployment)
		want   int
	}{
		{"creation", nil, 1},
		{"label", func(d *appsv1.Deployment) { d.Labels = labels }, 1},
		{"omitted default", func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = nil }, 1},
		{"spec", func(d *appsv1.Deployment) { d.Spec.Paused = true }, 2},
	} {
		if tc.change != nil {
			if _, err := deployments.Update(ctx, "default", "d", func(current scheme.Object) (scheme.Object, error) {
				obj := current.DeepCopyObject().(*appsv1.Deployment)
				tc.change(obj)
				return obj, nil
			}, registry.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if len(warnings) != tc.want {
			t.Errorf("after a change of the %s: got warnings %q, want %d", tc.name, warnings, tc.want)
		}
	}
}

// TestCreationWarnings checks that a client that creates gets the warnings, and one that updates
// does not.
func TestCreationWarnings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var warnings []string
	ctx := admission.WithWarnings(t.Context(), func(text string) { warnings = append(warnings, text) })
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "i", Annotations: map[string]string{"kubernetes.io/ingress.class": "x"}}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	ingresses := resource[*networkingv1.Ingress](w)
	if _, err := ingresses.Create(ctx, "default", i, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	change := func(current scheme.Object) (scheme.Object, error) {
		obj := current.DeepCopyObject().(*networkingv1.Ingress)
		obj.Labels = map[string]string{"a": "b"}
		return obj, nil
	}
	if _, err := ingresses.Update(ctx, "default", "i", change, registry.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}; !slices.Equal(warnings, want) {
		t.Errorf("the warnings are %q", warnings)
	}
}

// TestStatusWarnings checks that a client that changes a status gets the warnings about it.
func TestStatusWarnings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var warnings []string
	ctx := admission.WithWarnings(t.Context(), func(text string) { warnings = append(warnings, text) })
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "i"}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	ingresses := resource[*networkingv1.Ingress](w)
	if _, err := ingresses.Create(ctx, "default", i, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	change := func(current scheme.Object) (scheme.Object, error) {
		obj := current.DeepCopyObject().(*networkingv1.Ingress)
		obj.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "FD00::1"}}
		return obj, nil
	}
	if _, err := ingresses.Update(ctx, "default", "i", change, registry.UpdateOptions{Subresource: "status"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{`status.loadBalancer.ingress[0]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`}; !slices.Equal(warnings, want) {
		t.Errorf("the warnings are %q", warnings)
	}
}
