package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSecurityOfPods checks what applies to all containers of a pod.
func TestSecurityOfPods(t *testing.T) {
	security := func(s corev1.PodSecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SecurityContext = &s }
	}
	const at, noID = "spec.securityContext", "must be between 0 and 2147483647, inclusive"
	checkExactly(t, []refusal{
		{"the least and the greatest IDs", security(corev1.PodSecurityContext{
			RunAsUser: new(int64(0)), RunAsGroup: new(int64(1<<31 - 1)), FSGroup: new(int64(0)), SupplementalGroups: []int64{1<<31 - 1},
			FSGroupChangePolicy: new(corev1.FSGroupChangeAlways), SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict),
			SELinuxChangePolicy: new(corev1.SELinuxChangePolicyRecursive),
		}), nil},
		{"lesser and greater", security(corev1.PodSecurityContext{
			RunAsUser: new(int64(1 << 31)), RunAsGroup: new(int64(-1)), FSGroup: new(int64(1 << 31)), SupplementalGroups: []int64{1, -1},
			FSGroupChangePolicy: new(corev1.PodFSGroupChangePolicy("Never")), SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicy("")),
		}), []string{
			at + ".runAsUser: Invalid value: 2147483648: " + noID, at + ".runAsGroup: Invalid value: -1: " + noID,
			at + ".fsGroup: Invalid value: 2147483648: " + noID, at + ".supplementalGroups[1]: Invalid value: -1: " + noID,
			at + `.fsGroupChangePolicy: Unsupported value: "Never": supported values: "Always", "OnRootMismatch"`,
			at + `.supplementalGroupsPolicy: Unsupported value: "": supported values: "Merge", "Strict"`,
		}},
		{"the longest setting, the same with slashes", security(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
			{Name: "a." + strings.Repeat("b", 251)}, {Name: "a/b-c/d_e.f"},
		}}), nil},
		{"a longer one", security(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "a." + strings.Repeat("b", 252)}}}), []string{
			at + `.sysctls[0].name: Invalid value: "a.` + strings.Repeat("b", 252) + `": must have at most 253 characters and match regex ` +
				`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`,
		}},
		{"the host's memory", func(p *corev1.Pod) {
			p.Spec.HostIPC = true
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
				{Name: "kernel.sem"}, {Name: "kernel/shmmax"}, {Name: "fs.mqueue.a"}, {Name: "kernel.semaphore"}, {Name: "net.a"},
			}}
		}, []string{
			at + ".sysctls[0].name: Invalid value: \"kernel.sem\": may not be specified when 'hostIPC' is true",
			at + ".sysctls[1].name: Invalid value: \"kernel/shmmax\": may not be specified when 'hostIPC' is true",
			at + ".sysctls[2].name: Invalid value: \"fs.mqueue.a\": may not be specified when 'hostIPC' is true",
		}},
	})
}

// TestSecurityOfContainers checks profiles, and privileges that contradict each other.
func TestSecurityOfContainers(t *testing.T) {
	security := func(s corev1.SecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { first(p).SecurityContext = &s }
	}
	seccomp := func(kind corev1.SeccompProfileType, file *string) func(*corev1.Pod) {
		return security(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: kind, LocalhostProfile: file}})
	}
	armor := func(kind corev1.AppArmorProfileType, file *string) func(*corev1.Pod) {
		return security(corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: kind, LocalhostProfile: file}})
	}
	const at = "spec.containers[0].securityContext"
	long := strings.Repeat("a", 4096)
	checkExactly(t, []refusal{
		{"a file of seccomp", seccomp(corev1.SeccompProfileTypeLocalhost, new("a/b.json")), nil},
		{"another directory", seccomp(corev1.SeccompProfileTypeLocalhost, new("/a/..")), []string{
			at + `.seccompProfile.localhostProfile: Invalid value: "/a/..": must be a relative path`,
			at + `.seccompProfile.localhostProfile: Invalid value: "/a/..": must not contain '..'`,
		}},
		{"no file", seccomp(corev1.SeccompProfileTypeLocalhost, nil), []string{
			at + ".seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
		}},
		{"no file is needed", seccomp(corev1.SeccompProfileTypeRuntimeDefault, nil), nil},
		{"an unknown type", seccomp("Local", nil), []string{
			at + `.seccompProfile.type: Unsupported value: "Local": supported values: "Localhost", "RuntimeDefault", "Unconfined"`,
		}},
		{"the longest profile of AppArmor", armor(corev1.AppArmorProfileTypeLocalhost, new(long[1:])), nil},
		{"a longer one", armor(corev1.AppArmorProfileTypeLocalhost, &long), []string{
			at + ".appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes",
		}},
		{"none", armor(corev1.AppArmorProfileTypeLocalhost, new("")), []string{
			at + ".appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost",
		}},
		{"one that is not used", armor(corev1.AppArmorProfileTypeRuntimeDefault, new("a")), []string{
			at + `.appArmorProfile.localhostProfile: Invalid value: "a": can only be set when AppArmor type is Localhost`,
		}},
		{"another type", armor("Local", nil), []string{
			at + `.appArmorProfile.type: Unsupported value: "Local": supported values: "Localhost", "RuntimeDefault", "Unconfined"`,
		}},
		{"a process file system with users of its own", func(p *corev1.Pod) {
			p.Spec.HostUsers = new(false)
			first(p).SecurityContext = &corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)}
		}, nil},
		{"an unknown one, bad IDs", security(corev1.SecurityContext{
			ProcMount: new(corev1.ProcMountType("Masked")), RunAsUser: new(int64(-1)), RunAsGroup: new(int64(1 << 31)),
		}), []string{
			at + `.procMount: Unsupported value: "Masked": supported values: "Default", "Unmasked"`,
			at + ".runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			at + ".runAsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
		}},
		{"escalation that is allowed", security(corev1.SecurityContext{
			AllowPrivilegeEscalation: new(true), Privileged: new(true), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_SYS_ADMIN"}},
		}), nil},
		{"another capability", security(corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Privileged: new(false), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}},
		}), nil},
	})
}

// TestEscalation checks privileges that contradict a container that gains none. The errors show the
// whole context, so only their ends are compared.
func TestEscalation(t *testing.T) {
	checkPods(t, []refusal{{"an administrator", func(p *corev1.Pod) {
		first(p).SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "CAP_SYS_ADMIN"}},
		}
	}, []string{"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"}}})
}
