package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAppArmorWarnings checks that a client learns which legacy annotations became fields, or could not.
func TestAppArmorWarnings(t *testing.T) {
	const prefix = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	unconfined := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	for name, tc := range map[string]struct {
		value  string
		change func(*corev1.PodSpec)
		want   int
	}{
		"becomes a field": {"unconfined", func(*corev1.PodSpec) {}, 1},
		"malformed":       {"localhost/", func(*corev1.PodSpec) {}, 1},
		"of the pod":      {"unconfined", func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: unconfined} }, 0},
		"beside a field": {"unconfined", func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: unconfined}
		}, 0},
		"on Windows": {"unconfined", func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
			p.Annotations = map[string]string{prefix + "a": tc.value}
			tc.change(&p.Spec)
			if got := Pod().ReplacedWarnings(p); len(got) != tc.want {
				t.Errorf("got warnings %q, want %d", got, tc.want)
			}
		})
	}
	if got := Pod().Update.Warnings(&corev1.Pod{}, &corev1.Pod{}); got != nil {
		t.Errorf("an update: got warnings %q", got)
	}
	reported := &corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "010.0.0.1"}}, HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}}}}
	if got := Pod().Subresources["status"].Warnings(reported, reported); len(got) != 1 {
		t.Errorf("odd addresses: got warnings %q", got)
	}
}
