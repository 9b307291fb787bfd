package status

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// statusPatch returns the strategic merge patch from the status in api to want. It includes the
// pod's UID, so that it never applies to another pod of the same name.
func statusPatch(api *corev1.Pod, want *corev1.PodStatus) ([]byte, error) {
	from, err := json.Marshal(corev1.Pod{Status: api.Status})
	if err != nil {
		return nil, fmt.Errorf("encoding the present status: %w", err)
	}
	to, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: api.UID}, Status: *want})
	if err != nil {
		return nil, fmt.Errorf("encoding the new status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("comparing the old status with the new: %w", err)
	}
	return patch, nil
}

// isOtherPod reports whether the API rejected a write because the pod of this name has another UID.
func isOtherPod(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
