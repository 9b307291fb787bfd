package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// ResourceQuota defines the kind ResourceQuota.
func ResourceQuota() *kinds.Definition {
	return kinds.Of[*corev1.ResourceQuota]{
		Columns:          resourceQuotaColumns(),
		Level:            kinds.Full,
		Default:          defaultResourceQuota,
		Create:           func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} },
		Validate:         validateResourceQuota,
		CreationWarnings: resourceQuotaWarnings,
		Update: kinds.ChangeOf[*corev1.ResourceQuota]{
			Prepare:  func(q, old *corev1.ResourceQuota) { q.Status = *old.Status.DeepCopy() },
			Validate: validateResourceQuotaUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[*corev1.ResourceQuota]{"status": {
			Prepare:  func(q, old *corev1.ResourceQuota) { q.Spec = *old.Spec.DeepCopy() },
			Validate: validateResourceQuotaStatus,
		}},
		ReturnDeleted: true,
	}.Definition()
}

// defaultResourceQuota sets the defaults of a resource quota.
func defaultResourceQuota(q *corev1.ResourceQuota) {
	podtemplate.RoundUp(q.Spec.Hard)
	podtemplate.RoundUp(q.Status.Hard)
	podtemplate.RoundUp(q.Status.Used)
}

// resourceQuotaWarnings warns about requests that may be larger than the limits. The bare names of CPU and
// memory stand for requests.
func resourceQuotaWarnings(q *corev1.ResourceQuota) []string {
	var found []string
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		name := "requests." + resource
		request, ok := q.Spec.Hard[name]
		if !ok && (resource == corev1.ResourceCPU || resource == corev1.ResourceMemory) {
			name = resource
			request, ok = q.Spec.Hard[name]
		}
		limit, limited := q.Spec.Hard["limits."+resource]
		if ok && limited && request.Cmp(limit) > 0 {
			found = append(found, fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)", name, request.String(), resource, limit.String()))
		}
	}
	return found
}

func resourceQuotaColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
		columns.Text("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
		columns.Age(),
	}, func(q *corev1.ResourceQuota, now time.Time) []any {
		var requests, limits []string
		for _, resource := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			used, hard := q.Status.Used[resource], q.Status.Hard[resource]
			cell := fmt.Sprintf("%s: %s/%s", resource, used.String(), hard.String())
			if strings.HasPrefix(string(resource), "limits.") {
				limits = append(limits, cell)
			} else {
				requests = append(requests, cell)
			}
		}
		return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), columns.AgeOf(q, now)}
	})
}
