package admit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
)

func TestAppArmor(t *testing.T) {
	profile := func(kind corev1.AppArmorProfileType) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: kind}
	}
	byDefault, unconfined := profile(corev1.AppArmorProfileTypeRuntimeDefault), profile(corev1.AppArmorProfileTypeUnconfined)
	cases := map[string]struct {
		pod, container *corev1.AppArmorProfile
		refused        bool
	}{
		"none":                       {},
		"of the pod":                 {pod: byDefault, refused: true},
		"of the container":           {container: byDefault, refused: true},
		"unconfined pod":             {pod: unconfined},
		"unconfined container":       {pod: byDefault, container: unconfined},
		"container confined for all": {pod: unconfined, container: byDefault, refused: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{AppArmorProfile: c.pod},
				Containers:      []corev1.Container{{SecurityContext: &corev1.SecurityContext{AppArmorProfile: c.container}}},
			}}
			got := admit.AppArmor(pod, false)
			if (got != nil) != c.refused || got != nil && got.Reason != "AppArmor" {
				t.Errorf("got %v, want refused: %t", got, c.refused)
			}
			if got := admit.AppArmor(pod, true); got != nil {
				t.Errorf("a node that enforces profiles refuses: %v", got)
			}
		})
	}
}
