package columns

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func resourceQuotas() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
		text("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
		age(),
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
		return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), ageOf(q, now)}
	})
}

func podDisruptionBudgets() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Min Available", "The minimum number of pods that must be available."),
		text("Max Unavailable", "The maximum number of pods that may be unavailable."),
		number("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
		age(),
	}, func(b *policyv1.PodDisruptionBudget, now time.Time) []any {
		return []any{
			b.Name, bound(b.Spec.MinAvailable), bound(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), ageOf(b, now),
		}
	})
}

func bound(value *intstr.IntOrString) string {
	if value == nil {
		return "N/A"
	}
	return value.String()
}

func priorityClasses() layout {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		number("Value", doc["value"]),
		{Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"]},
		age(),
		text("PreemptionPolicy", doc["preemptionPolicy"]),
	}, func(c *schedulingv1.PriorityClass, now time.Time) []any {
		return []any{c.Name, int64(c.Value), c.GlobalDefault, ageOf(c, now), deref(c.PreemptionPolicy, "")}
	})
}

func persistentVolumeClaims() layout {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Status", status["phase"]),
		text("Volume", spec["volumeName"]),
		text("Capacity", status["capacity"]),
		text("Access Modes", status["accessModes"]),
		text("StorageClass", "StorageClass of the pvc"),
		text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
		age(),
		wide(text("VolumeMode", spec["volumeMode"])),
	}, func(c *corev1.PersistentVolumeClaim, now time.Time) []any {
		phase, capacity, modes := string(c.Status.Phase), "", ""
		if c.DeletionTimestamp != nil {
			phase = "Terminating"
		}
		if c.Spec.VolumeName != "" {
			size := c.Status.Capacity[corev1.ResourceStorage]
			capacity, modes = size.String(), accessModes(c.Status.AccessModes)
		}
		class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]
		if !ok {
			class = deref(c.Spec.StorageClassName, "")
		}
		return []any{
			c.Name, phase, c.Spec.VolumeName, capacity, modes, class,
			deref(c.Spec.VolumeAttributesClassName, unset), ageOf(c, now), deref(c.Spec.VolumeMode, unset),
		}
	})
}

// accessModes returns the short names of modes, each once, in kubectl's order.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			short = append(short, m.short)
		}
	}
	return strings.Join(short, ",")
}

func storageClasses() layout {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Provisioner", doc["provisioner"]),
		text("ReclaimPolicy", doc["reclaimPolicy"]),
		text("VolumeBindingMode", doc["volumeBindingMode"]),
		text("AllowVolumeExpansion", doc["allowVolumeExpansion"]),
		age(),
	}, func(c *storagev1.StorageClass, now time.Time) []any {
		name := c.Name
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
			name += " (default)"
		}
		return []any{
			name, c.Provisioner, deref(c.ReclaimPolicy, string(corev1.PersistentVolumeReclaimDelete)),
			deref(c.VolumeBindingMode, string(storagev1.VolumeBindingImmediate)),
			c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion, ageOf(c, now),
		}
	})
}

// deref returns the text that p points to, or otherwise if p is nil.
func deref[T ~string](p *T, otherwise string) string {
	if p == nil {
		return otherwise
	}
	return string(*p)
}
