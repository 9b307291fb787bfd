package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestPrepareStatus checks what an update of the status keeps and drops.
func TestPrepareStatus(t *testing.T) {
	type status = *corev1.PodStatus
	mount := func(of *corev1.VolumeStatus) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{VolumeMounts: []corev1.VolumeMountStatus{{VolumeStatus: of}}}}
	}
	full := func(s status) {
		s.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c"}}
		s.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"}
		s.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "n"}}
		s.VolumeHealth = []corev1.PodVolumeHealth{{Name: "v"}}
		s.InitContainerStatuses = mount(&corev1.VolumeStatus{})
	}
	conditions := func(generations ...int64) func(status) {
		return func(s status) {
			s.ObservedGeneration = generations[0]
			for _, n := range generations[1:] {
				s.Conditions = append(s.Conditions, corev1.PodCondition{Type: "a", ObservedGeneration: n})
			}
		}
	}
	for name, tc := range map[string]struct{ old, change, want func(status) }{
		"features that are off": {func(status) {}, full, func(s status) {
			full(s)
			s.NodeAllocatableResourceClaimStatuses, s.VolumeHealth = nil, nil
			s.InitContainerStatuses = mount(nil)
		}},
		"in use": {full, full, full},
		"fields that a client does not know": {full, func(status) {}, func(s status) {
			full(s)
			s.VolumeHealth, s.InitContainerStatuses = nil, nil
		}},
		"removed claims": {full, func(s status) {
			s.ResourceClaimStatuses, s.NodeAllocatableResourceClaimStatuses = []corev1.PodResourceClaimStatus{}, []corev1.NodeAllocatableResourceClaimStatus{}
		}, func(s status) {
			full(s)
			s.VolumeHealth, s.InitContainerStatuses = nil, nil
			s.ResourceClaimStatuses, s.NodeAllocatableResourceClaimStatuses = []corev1.PodResourceClaimStatus{}, []corev1.NodeAllocatableResourceClaimStatus{}
		}},
		"generations that are missing": {conditions(7, 1, 2), conditions(0, 0, 5, 0), conditions(7, 1, 5, 0)},
		"newer generations":            {conditions(7, 1), conditions(8, 3), conditions(8, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			old, p, want := valid(), valid(), valid()
			old.OwnerReferences = nil
			tc.old(&old.Status)
			tc.change(&p.Status)
			tc.want(&want.Status)
			want.Status.QOSClass = corev1.PodQOSBestEffort
			p.Spec.NodeName = "elsewhere"
			prepareStatus(p, old)
			if diff := cmp.Diff(want, p); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
