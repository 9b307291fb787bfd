package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPods(t *testing.T) {
	none := &metav1.LabelSelector{}
	list := func(name corev1.ResourceName, value string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(value)}
	}
	first := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []string
	}{
		{"plain", func(*corev1.Pod) {}, nil},
		{"node selector", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux", "kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "x"}
		}, []string{
			`spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead`,
			`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
		}},
		{"affinity", func(p *corev1.Pod) {
			old := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelFailureDomainBetaZone}}}
			p.Spec.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{old}},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Preference: old}},
				},
				PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: none}, {}}},
				PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{}}},
			}
		}, []string{
			`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
			`spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
			"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].labelSelector: a null labelSelector results in matching no pod",
			"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
		}},
		{"spread", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelFailureDomainBetaRegion}, {TopologyKey: corev1.LabelInstanceType, LabelSelector: none}}
		}, []string{
			`spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/region is deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
			"spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
			`spec.topologySpreadConstraints[1].topologyKey: beta.kubernetes.io/instance-type is deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		}},
		{"annotations", func(p *corev1.Pod) {
			p.Annotations = map[string]string{
				"scheduler.alpha.kubernetes.io/critical-pod": "", "security.alpha.kubernetes.io/sysctls": "", "security.alpha.kubernetes.io/unsafe-sysctls": "",
				seccompPod: "", seccompContainer + "a": "", "container.apparmor.security.beta.kubernetes.io/a": "",
			}
		}, []string{
			`metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead`,
			`metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the "sysctls" field instead`,
			`metadata.annotations[security.alpha.kubernetes.io/unsafe-sysctls]: non-functional in v1.11+; use the "sysctls" field instead`,
			`metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead`,
			`metadata.annotations[container.seccomp.security.alpha.kubernetes.io/a]: non-functional in v1.27+; use the "seccompProfile" field instead`,
		}},
		{"annotations beside fields", func(p *corev1.Pod) {
			p.Annotations = map[string]string{seccompPod: "", seccompContainer + "a": "", "container.apparmor.security.beta.kubernetes.io/a": ""}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{}, AppArmorProfile: &corev1.AppArmorProfile{}}
			first(p).SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{}}
		}, nil},
		{"volumes", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}}, {VolumeSource: corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}}},
				{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "100m")}},
				}}}},
			}
		}, []string{
			"spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+", "spec.volumes[1].glusterfs: deprecated in v1.25, non-functional in v1.26+",
			`spec.volumes[2].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`,
		}},
		{"overlapping files", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}, Items: []corev1.KeyToPath{{Path: "a"}, {Path: "a/b"}, {Path: "ab"}}}}},
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x", Items: []corev1.KeyToPath{{Path: "a/"}, {Path: "a"}}}}},
				{Name: "d", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "a/b"}, {Path: "a"}}}}},
				{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}, {Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}, Items: []corev1.KeyToPath{{Path: "token"}}}},
				}}}},
			}
		}, []string{
			`volume "c" (ConfigMap "m"): overlapping paths: "a/b" with "a"`, `volume "s" (Secret "x"): overlapping paths: "a" with "a"`, `volume "d" (DownwardAPI): overlapping paths: "a" with "a/b"`,
			`volume "p" (Projected) has no sources provided`, `volume "p" (Projected): overlapping paths: "token" (Secret "x") with "token" (ServiceAccountToken)`,
		}},
		{"repeated", func(p *corev1.Pod) {
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4"}, {IP: "1.2.3.4"}}
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}, {Name: "a"}, {}}
		}, []string{
			`spec.hostAliases[1].ip: duplicate ip "1.2.3.4"`, `spec.imagePullSecrets[1].name: duplicate name "a"`, `spec.imagePullSecrets[2].name: invalid empty name ""`,
		}},
		{"fractions", func(p *corev1.Pod) {
			p.Spec.Overhead = list("memory", "1500m")
			first(p).Resources = corev1.ResourceRequirements{Limits: list("memory", "2500m"), Requests: list("ephemeral-storage", "1m")}
		}, []string{
			`spec.overhead[memory]: fractional byte value "1500m" is invalid, must be an integer`,
			`spec.containers[0].resources.limits[memory]: fractional byte value "2500m" is invalid, must be an integer`,
			`spec.containers[0].resources.requests[ephemeral-storage]: fractional byte value "1m" is invalid, must be an integer`,
		}},
		{"variables", func(p *corev1.Pod) {
			first(p).Env = []corev1.EnvVar{{Name: "A", Value: "x"}, {Name: "A", Value: "$(A)y"}, {Name: "A", Value: "$(A)"}, {Name: "A", Value: "z"}, {Name: "A", ValueFrom: &corev1.EnvVarSource{}}}
		}, []string{
			`spec.containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply`,
			`spec.containers[0].env[3]: hides previous definition of "A", which may be dropped when using apply`,
			`spec.containers[0].env[4]: hides previous definition of "A", which may be dropped when using apply`,
		}},
		{"ports", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 81, HostPort: 81}}}}
			first(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 80, Protocol: "UDP", HostIP: "1.2.3.4"}, {ContainerPort: 81, HostPort: 81, HostIP: "1.2.3.4"}, {ContainerPort: 81}}
		}, []string{
			"spec.containers[0].ports[0]: duplicate port definition with spec.initContainers[0].ports[0]",
			"spec.containers[0].ports[1]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:UDP HostIP:1.2.3.4}",
			"spec.containers[0].ports[2]: dangerously ambiguous port definition with spec.initContainers[0].ports[1]",
			"spec.containers[0].ports[3]: overlapping port definition with spec.initContainers[0].ports[1]",
			"spec.containers[0].ports[3]: overlapping port definition with spec.containers[0].ports[2]",
		}},
		{"port names", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
			first(p).Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 81}, {ContainerPort: 82}}
		}, []string{
			`spec.containers[0].ports[0]: duplicate port name "http" with spec.initContainers[0].ports[0], services and probes that select ports by name will use spec.initContainers[0].ports[0]`,
		}},
		{"addresses", func(p *corev1.Pod) {
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"010.0.0.1"}}
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "::ffff:1.2.3.4"}}
		}, []string{
			`spec.dnsConfig.nameservers[0]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"`,
			`spec.hostAliases[0].ip: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"`,
		}},
		{"preferred values", func(p *corev1.Pod) {
			term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"-"}}}}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Preference: term}},
			}}
		}, []string{
			"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid, " + validation.IsValidLabelValue("-")[0],
		}},
		{"grace", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(-1)) }, []string{
			"spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
			tc.change(p)
			if diff := cmp.Diff(tc.want, PodWarnings(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	legacy := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
	legacy.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}
	at := field.NewPath("template")
	if got := PodTemplateWarnings(legacy, at); len(got) != 1 {
		t.Errorf("a legacy profile: got warnings %q", got)
	}
	legacy.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}
	if got := PodTemplateWarnings(legacy, at); got != nil {
		t.Errorf("a legacy profile that is that of the pod: got warnings %q", got)
	}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"beta.kubernetes.io/os": "x"}}}
	want := []string{`spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`}
	if diff := cmp.Diff(want, PodTemplateWarnings(template, field.NewPath("spec", "template"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	if got := append(PodNameWarnings("web-1"), append(WorkloadNameWarnings(""), WorkloadNameWarnings("web")...)...); len(got) > 0 {
		t.Errorf("good names: got warnings %v", got)
	}
	want := []string{
		"metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
		"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
	}
	if diff := cmp.Diff(want, append(PodNameWarnings("a.b"), WorkloadNameWarnings("a.b")...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
