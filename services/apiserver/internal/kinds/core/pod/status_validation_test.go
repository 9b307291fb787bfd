package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// addressed sets the addresses of a pod, of which ip is the only one for old clients.
func addressed(ip string, all ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.PodIP = ip
		for _, each := range all {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: each})
		}
	}
}

func TestStatus(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	for _, tc := range []struct {
		name   string
		before func(*corev1.Pod)
		change func(*corev1.Pod)
		want   []string
	}{
		{"two families", nil, addressed("10.0.0.1", "10.0.0.1", "fd00::1"), nil},
		{"one family", nil, addressed("10.0.0.1", "10.0.0.1", "10.0.0.1"), []string{
			"status.podIPs: Invalid value:", "may specify no more than one IP for each IP family",
		}},
		{"a list alone", nil, addressed("", ""), []string{"status.podIPs: Invalid value:", "podIP and podIPs must either both be set or both be unset"}},
		{"another first", nil, addressed("10.0.0.1", "10.0.0.2"), []string{"status.podIPs[0].ip: Invalid value: \"10.0.0.2\": must be equal to `podIP`"}},
		{"an odd address stays", addressed("010.0.0.1", "010.0.0.1"), func(*corev1.Pod) {}, nil},
		{"host", nil, func(p *corev1.Pod) { p.Status.HostIP, p.Status.HostIPs = "10.0.0.1", []corev1.HostIP{{IP: "x"}} }, []string{
			"status.hostIPs[0].ip: Invalid value: \"x\": must be equal to `hostIP`", `status.hostIPs[0]: Invalid value: "x": must be a valid IP address`,
		}},
		{"claims", nil, func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: new("C")}, {Name: "c"}}
		}, []string{
			"status.resourceClaimStatuses[0].name: Invalid value: \"c\": must match the name of an entry in `spec.resourceClaims`",
			`status.resourceClaimStatuses[0].resourceClaimName: Invalid value: "C"`, `status.resourceClaimStatuses[1].name: Duplicate value: "c"`,
		}},
		{"conditions", nil, func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: "a b"}} }, []string{`status.conditions[0].Type: Invalid value: "a b"`}},
		{"another class", func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable }, func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed }, []string{
			`status.qosClass: Invalid value: "Guaranteed": field is immutable`,
		}},
		{"a first class", nil, func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable }, nil},
		{"users", nil, func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: -1, GID: -2, SupplementalGroups: []int64{-3}}}}}
		}, []string{"status.initContainerStatuses[0].user.linux.uid: Invalid value: -1", "linux.gid: Invalid value: -2", "linux.supplementalGroups[0]: Invalid value: -3"}},
		{"back to life", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: ended}}
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "e", State: ended}}
		}, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State, p.Status.EphemeralContainerStatuses[0].State = corev1.ContainerState{}, corev1.ContainerState{}
		}, []string{
			"status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
			"status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
		}},
		{"back to life by a rule", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			first(p).RestartPolicyRules = []corev1.ContainerRestartRule{{Action: "Restart", ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{1}}}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: ended}}
		}, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, nil},
		{"back to life, failed", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: ended}}
		}, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := valid()
			if tc.before != nil {
				tc.before(old)
			}
			p := old.DeepCopy()
			tc.change(p)
			checkErrors(t, validateStatusUpdate(p, old).ToAggregate(), tc.want)
		})
	}
}
