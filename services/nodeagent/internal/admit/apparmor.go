package admit

import corev1 "k8s.io/api/core/v1"

// AppArmor refuses a pod with a container that must be confined by an AppArmor profile if the node
// enforces none; the reason and the message are the kubelet's.
func AppArmor(pod *corev1.Pod, enforced bool) *Rejection {
	if enforced {
		return nil
	}
	var ofPod *corev1.AppArmorProfile
	if s := pod.Spec.SecurityContext; s != nil {
		ofPod = s.AppArmorProfile
	}
	confined := func(s *corev1.SecurityContext) bool {
		profile := ofPod
		if s != nil && s.AppArmorProfile != nil {
			profile = s.AppArmorProfile
		}
		return profile != nil && profile.Type != corev1.AppArmorProfileTypeUnconfined
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if confined(list[i].SecurityContext) {
				return &Rejection{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
			}
		}
	}
	return nil
}
