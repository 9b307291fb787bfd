package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

func valid() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

func TestPod(t *testing.T) {
	first := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []string // nothing means valid
	}{
		{"plain", func(*corev1.Pod) {}, nil},
		{"no containers", func(p *corev1.Pod) { p.Spec.Containers = nil }, []string{"spec.containers: Required value"}},
		{"no name", func(p *corev1.Pod) { first(p).Name = "" }, []string{"spec.containers[0].name: Required value"}},
		{"bad name", func(p *corev1.Pod) { first(p).Name = "Web" }, []string{`spec.containers[0].name: Invalid value: "Web": a lowercase RFC 1123 label`}},
		{"same names", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, *first(p)) }, []string{`spec.containers[1].name: Duplicate value: "web"`}},
		{"no image", func(p *corev1.Pod) { first(p).Image = "" }, []string{"spec.containers[0].image: Required value"}},
		{"spaced image", func(p *corev1.Pod) { first(p).Image = " a" }, []string{"must not have leading or trailing whitespace"}},
		{"pull policy", func(p *corev1.Pod) { first(p).ImagePullPolicy = "Sometimes" }, []string{`spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"`}},
		{"restart policy", func(p *corev1.Pod) { p.Spec.RestartPolicy = "Maybe" }, []string{`spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"`}},
		{"dns policy", func(p *corev1.Pod) { p.Spec.DNSPolicy = "Odd" }, []string{`spec.dnsPolicy: Unsupported value: "Odd"`}},
		{"dns none", func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSNone }, []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
		{"port", func(p *corev1.Pod) {
			first(p).Ports = []corev1.ContainerPort{{Name: "UPPER", ContainerPort: 70000, Protocol: "ICMP"}}
		}, []string{"spec.containers[0].ports[0].name: Invalid value: \"UPPER\"", "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive", `ports[0].protocol: Unsupported value: "ICMP"`}},
		{"host ports", func(p *corev1.Pod) {
			first(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}, {ContainerPort: 81, HostPort: 80}}
		}, []string{`spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"`}},
		{"host network", func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			first(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 81}}
		}, []string{"spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"}},
		{"env", func(p *corev1.Pod) {
			first(p).Env = []corev1.EnvVar{{Name: ""}, {Name: "a=b"}, {Name: "c", Value: "x", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.color"}}}, {Name: "d", ValueFrom: &corev1.EnvVarSource{}}}
		}, []string{
			"env[0].name: Required value", `env[1].name: Invalid value: "a=b"`, `env[2].valueFrom.fieldRef.fieldPath: Invalid value: "spec.color": error converting fieldPath: field label not supported: spec.color`,
			"env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty", "env[3].valueFrom: Invalid value: \"\": must specify one of:",
		}},
		{"label env", func(p *corev1.Pod) {
			first(p).Env = []corev1.EnvVar{{Name: "a", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}}}
		}, nil},
		{"mounts", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v"}}
			first(p).VolumeMounts = []corev1.VolumeMount{{Name: "w", MountPath: "/a"}, {Name: "v", MountPath: "/a", SubPath: "../x"}, {Name: "v"}}
		}, []string{`volumeMounts[0].name: Not found: "w"`, `volumeMounts[1].mountPath: Invalid value: "/a": must be unique`, "subPath: Invalid value: \"../x\": must not contain '..'", "volumeMounts[2].mountPath: Required value"}},
		{"two sources", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}, HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}}
		}, []string{"spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"}},
		{"volumes", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: new(int32(0o1777))}}},
				{Name: "a", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a/../b", Type: new(corev1.HostPathType("Cloud"))}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Items: []corev1.KeyToPath{{Key: "k", Path: "/abs"}}}}},
				{Name: "e"}, {Name: "e"},
				{Name: "d", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t", ExpirationSeconds: new(int64(1))}}, {}}}}},
			}
		}, []string{
			"spec.volumes[0].secret.secretName: Required value", "must be a number between 0 and 0777 (octal), both inclusive",
			`spec.volumes[4].name: Duplicate value: "e"`, "must not contain '..'", `hostPath.type: Unsupported value: "Cloud"`,
			`items[0].path: Invalid value: "/abs": must be a relative path`, "may not specify a duration less than 10 minutes",
		}},
		{"resources", func(p *corev1.Pod) {
			first(p).Resources = corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("-1"), "example.com/gpu": resource.MustParse("1"), "color": resource.MustParse("1")},
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1")},
			}
		}, []string{
			`resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`, `resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
			"Limit must be set for non overcommitable resources", `resources.requests[color]: Invalid value: "color": must be a standard resource for containers`,
		}},
		{"probes", func(p *corev1.Pod) {
			first(p).LivenessProbe = &corev1.Probe{SuccessThreshold: 2, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(0)}}}
			first(p).ReadinessProbe = &corev1.Probe{TimeoutSeconds: -1}
			first(p).StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}, TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
		}, []string{
			"livenessProbe.successThreshold: Invalid value: 2: must be 1", "livenessProbe.httpGet.port: Invalid value: 0",
			"readinessProbe: Required value: must specify a handler type", "readinessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
			"startupProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
		}},
		{"init container", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "web", Image: "a", ReadinessProbe: &corev1.Probe{}}}
		}, []string{`spec.initContainers[0].name: Duplicate value: "web"`, "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"}},
		{"tolerations", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpEqual}, {Key: "a", Operator: "Near"}, {Key: "a", TolerationSeconds: new(int64(1))}, {Key: "a", Operator: corev1.TolerationOpExists, Value: "x"}}
		}, []string{"tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty", `tolerations[1].operator: Unsupported value: "Near"`, "effect must be 'NoExecute' when `tolerationSeconds` is set", "value must be empty when `operator` is 'Exists'"}},
		{"affinity", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 0, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "In"}, {Key: "b", Operator: "Gt", Values: []string{"x"}}}}}},
				},
				PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}},
			}
		}, []string{
			"nodeSelectorTerms: Required value: must have at least one node selector term", "weight: Invalid value: 0: must be in the range 1-100",
			"values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			"topologyKey: Required value: can not be empty",
		}},
		{"security", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(-1)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}
			first(p).SecurityContext = &corev1.SecurityContext{Privileged: new(true), AllowPrivilegeEscalation: new(false)}
		}, []string{"runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive", "must be set when seccomp type is Localhost", "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"}},
		{"deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(0)) }, []string{"spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"}},
		{"names", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.NodeName = "a.b", "N" }, []string{`spec.hostname: Invalid value: "a.b"`, `spec.nodeName: Invalid value: "N"`}},
		{"gated and bound", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "n", []corev1.PodSchedulingGate{{Name: "a"}}
		}, []string{"cannot be set until all schedulingGates have been cleared"}},
		{"spread", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "a", WhenUnsatisfiable: "Ignore"}}
		}, []string{"maxSkew: Invalid value: 0: must be greater than zero", `whenUnsatisfiable: Unsupported value: "Ignore"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := valid()
			tc.change(p)
			podtemplate.DefaultPod(p)
			checkErrors(t, Validate(p).ToAggregate(), tc.want)
		})
	}
}

// checkErrors checks that err contains each text, and that there is no error if there are no texts.
func checkErrors(t *testing.T, err interface{ Errors() []error }, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		for _, e := range err.Errors() {
			got = append(got, e.Error())
		}
	}
	if len(want) == 0 && len(got) > 0 {
		t.Errorf("got errors %v, want none", got)
	}
	for _, text := range want {
		if !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, text) }) {
			t.Errorf("%q is not among\n%s", text, strings.Join(got, "\n"))
		}
	}
}
