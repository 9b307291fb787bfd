package admission_test

import (
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// TestEquivalents finds the forms in which a webhook may ask for an object.
func TestEquivalents(t *testing.T) {
	table := scheme.New()
	for _, tc := range []struct {
		kind        *scheme.Kind
		subresource string
		want        []string
	}{
		{scheme.For[*corev1.Pod](table), "", []string{"v1"}},
		{scheme.For[*autoscalingv1.HorizontalPodAutoscaler](table), "", []string{"autoscaling/v1", "autoscaling/v2"}},
		{scheme.For[*autoscalingv1.HorizontalPodAutoscaler](table), "status", []string{"autoscaling/v1", "autoscaling/v2"}},
		{scheme.For[*corev1.Event](table), "", []string{"v1", "events.k8s.io/v1"}},
	} {
		var got []string
		for _, kind := range admission.Equivalents(table, tc.kind, tc.subresource) {
			got = append(got, kind.GroupVersion().String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s %q: got %v, want %v", tc.kind.Kind, tc.subresource, got, tc.want)
		}
	}
}

// TestOptionsHaveTheirKind: webhooks and policies read the options by it.
func TestOptionsHaveTheirKind(t *testing.T) {
	update, ok := admission.UpdateOptions("writer", true).(*metav1.UpdateOptions)
	if !ok || update.Kind != "UpdateOptions" || update.FieldManager != "writer" || !slices.Equal(update.DryRun, []string{"All"}) {
		t.Errorf("got %+v", update)
	}
	if kept, ok := admission.UpdateOptions("", false).(*metav1.UpdateOptions); !ok || kept.DryRun != nil {
		t.Errorf("got %+v of an update that writes", kept)
	}
	given := metav1.DeleteOptions{DryRun: []string{"All"}}
	deleted, ok := admission.DeleteOptions(given).(*metav1.DeleteOptions)
	if !ok || deleted.Kind != "DeleteOptions" || deleted.APIVersion != "meta.k8s.io/v1" || given.Kind != "" {
		t.Errorf("got %+v", deleted)
	}
	if created := admission.CreateOptions(metav1.CreateOptions{}); created.GetObjectKind().GroupVersionKind().Kind != "CreateOptions" {
		t.Errorf("got %+v", created)
	}
}
