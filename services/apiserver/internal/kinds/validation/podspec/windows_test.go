package podspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestOnlyLinux checks each field that a pod of Windows cannot have, in pod and container.
func TestOnlyLinux(t *testing.T) {
	windows := func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }
	forbidden := func(at string, names ...string) []string {
		var want []string
		for _, name := range names {
			want = append(want, at+name+": Forbidden: cannot be set for a windows pod")
		}
		return want
	}
	seccomp, armor := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}, &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	checkExactly(t, []refusal{
		{"nothing", func(p *corev1.Pod) {
			windows(p)
			p.Spec.SecurityContext, first(p).SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, &corev1.SecurityContext{RunAsNonRoot: new(true)}
		}, nil},
		{"the pod", func(p *corev1.Pod) {
			windows(p)
			p.Spec.HostUsers, p.Spec.HostIPC, p.Spec.ShareProcessNamespace = new(true), true, new(false)
			p.Spec.SecurityContext = &corev1.PodSecurityContext{
				AppArmorProfile: armor, SELinuxOptions: &corev1.SELinuxOptions{}, SELinuxChangePolicy: new(corev1.SELinuxChangePolicyRecursive),
				SeccompProfile: seccomp, FSGroup: new(int64(1)), FSGroupChangePolicy: new(corev1.FSGroupChangeAlways),
				Sysctls: []corev1.Sysctl{{Name: "a"}}, RunAsUser: new(int64(1)), RunAsGroup: new(int64(1)), SupplementalGroups: []int64{1},
				SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyMerge),
			}
		}, slices.Concat(forbidden("spec.", "hostUsers", "hostIPC", "shareProcessNamespace"), forbidden("spec.securityContext.", "appArmorProfile", "seLinuxOptions",
			"seLinuxChangePolicy", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy"))},
		{"the container", func(p *corev1.Pod) {
			windows(p)
			first(p).SecurityContext = &corev1.SecurityContext{
				AppArmorProfile: armor, SELinuxOptions: &corev1.SELinuxOptions{}, SeccompProfile: seccomp, Capabilities: &corev1.Capabilities{},
				ReadOnlyRootFilesystem: new(false), Privileged: new(false), AllowPrivilegeEscalation: new(true), ProcMount: new(corev1.DefaultProcMount),
				RunAsUser: new(int64(1)), RunAsGroup: new(int64(1)),
			}
		}, forbidden("spec.containers[0].securityContext.", "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem",
			"privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup")},
	})
}
