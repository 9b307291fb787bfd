package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const armorOfWeb = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "web"

// TestAnnotations checks the values of annotations with a meaning.
func TestAnnotations(t *testing.T) {
	with := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	cost := func(value string) string {
		return `metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "` + value + `": must be a 32bit integer`
	}
	seccomp := "metadata.annotations." + seccompContainer + "web: Invalid value: "
	checkExactly(t, []refusal{
		{"the least cost", with(corev1.PodDeletionCost, "-2147483648"), nil},
		{"no cost", with(corev1.PodDeletionCost, "0"), nil},
		{"a cost too great", with(corev1.PodDeletionCost, "2147483648"), []string{cost("2147483648")}},
		{"a cost with a sign", with(corev1.PodDeletionCost, "+1"), []string{cost("+1")}},
		{"an empty cost", with(corev1.PodDeletionCost, ""), []string{cost("")}},
		{"the mirror of a pod on its node", func(p *corev1.Pod) {
			p.Spec.NodeName = "n"
			with(corev1.MirrorPodAnnotationKey, "x")(p)
		}, nil},
		{"Docker's profile", with(seccompPod, "docker/default"), nil},
		{"no profile", with(seccompContainer+"web", ""), []string{seccomp + `"": must be a valid seccomp profile`}},
		{"a profile elsewhere", with(seccompContainer+"web", "localhost//a"), []string{seccomp + `"/a": must be a relative path`}},
		{"AppArmor's default", with(armorOfWeb, ""), nil},
		{"a profile of AppArmor", with(armorOfWeb, "localhost/a"), nil},
	})
}

// TestConfinementAgrees checks each type of profile against the annotation for it.
func TestConfinementAgrees(t *testing.T) {
	armor := func(value string, own corev1.AppArmorProfile) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{armorOfWeb: value}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}
			first(p).SecurityContext = &corev1.SecurityContext{AppArmorProfile: &own} // This decides.
		}
	}
	seccomp := func(value string, own corev1.SeccompProfile) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{seccompPod: value}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &own}
		}
	}
	const one, all = "spec.containers[0].securityContext.appArmorProfile", "spec.securityContext.seccompProfile"
	const armorDiffers, seccompDiffers = ".type: Forbidden: apparmor type in annotation and field must match", ".type: Forbidden: seccomp type in annotation and field must match"
	checkExactly(t, []refusal{
		{"the same file", armor("localhost/a", corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("a")}), nil},
		{"another file", armor("localhost/a", corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("b")}), []string{
			one + ".localhostProfile: Forbidden: apparmor profile in annotation and field must match",
		}},
		{"a file and the default", armor("runtime/default", corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("b")}), []string{one + armorDiffers}},
		{"the default and nothing", armor("unconfined", corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}), []string{one + armorDiffers}},
		{"the same default", seccomp("docker/default", corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}), nil},
		{"nothing and the default", seccomp("runtime/default", corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}), []string{all + seccompDiffers}},
		{"the default and a file", seccomp("unconfined", corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a")}), []string{all + seccompDiffers}},
	})
}

// TestAnnotationsUpdate checks which annotations stay as they are for a pod's lifetime.
func TestAnnotationsUpdate(t *testing.T) {
	const mirror = corev1.MirrorPodAnnotationKey
	for _, tc := range []struct {
		name     string
		old, now map[string]string
		want     []string
	}{
		{"others", map[string]string{"a": "1", "b": "1", armorOfWeb: "x", mirror: "y"}, map[string]string{"a": "2", "c": "1", armorOfWeb: "x", mirror: "y"}, nil},
		{"changed", map[string]string{armorOfWeb: "x", mirror: "y"}, map[string]string{armorOfWeb: "z", mirror: ""}, []string{
			"at[" + armorOfWeb + "]: Forbidden: may not remove or update AppArmor annotations",
			"at[" + mirror + "]: Forbidden: may not remove or update mirror pod annotation",
		}},
		{"removed", map[string]string{mirror: ""}, nil, []string{"at[" + mirror + "]: Forbidden: may not remove or update mirror pod annotation"}},
		{"added", nil, map[string]string{armorOfWeb: "", mirror: ""}, []string{
			"at[" + armorOfWeb + "]: Forbidden: may not add AppArmor annotations", "at[" + mirror + "]: Forbidden: may not add mirror pod annotation",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod, old := valid(), valid()
			pod.Annotations, old.Annotations = tc.now, tc.old
			errortest.Exactly(t, AnnotationsUpdate(pod, old, field.NewPath("at")), tc.want...)
		})
	}
}
