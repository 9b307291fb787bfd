package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestResourceQuotaWarnings checks the warnings about requests above the limits.
func TestResourceQuotaWarnings(t *testing.T) {
	for name, tc := range map[string]struct {
		hard map[corev1.ResourceName]string
		want []string
	}{
		"nothing":             {},
		"no limit":            {hard: map[corev1.ResourceName]string{"requests.cpu": "5"}},
		"no request":          {hard: map[corev1.ResourceName]string{"limits.cpu": "5"}},
		"equal":               {hard: map[corev1.ResourceName]string{"requests.cpu": "5", "limits.cpu": "5"}},
		"above":               {map[corev1.ResourceName]string{"requests.cpu": "5", "limits.cpu": "4"}, []string{"ResourceQuota requests.cpu (5) should be less than limits.cpu (4)"}},
		"a bare name":         {map[corev1.ResourceName]string{"memory": "2Gi", "limits.memory": "1Gi"}, []string{"ResourceQuota memory (2Gi) should be less than limits.memory (1Gi)"}},
		"both names":          {hard: map[corev1.ResourceName]string{"cpu": "9", "requests.cpu": "1", "limits.cpu": "4"}},
		"storage by its name": {hard: map[corev1.ResourceName]string{"ephemeral-storage": "9", "limits.ephemeral-storage": "4"}},
		"storage": {
			map[corev1.ResourceName]string{"requests.ephemeral-storage": "9", "limits.ephemeral-storage": "4"},
			[]string{"ResourceQuota requests.ephemeral-storage (9) should be less than limits.ephemeral-storage (4)"},
		},
	} {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
		for resourceName, amount := range tc.hard {
			q.Spec.Hard[resourceName] = resource.MustParse(amount)
		}
		if got := resourceQuotaWarnings(q); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
