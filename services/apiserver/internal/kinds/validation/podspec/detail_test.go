package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlacement(t *testing.T) {
	app := func() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}} }
	in := []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}}}
	spreads := func(list ...corev1.TopologySpreadConstraint) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = list }
	}
	ok := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}
	with := func(change func(*corev1.TopologySpreadConstraint)) corev1.TopologySpreadConstraint {
		c := *ok.DeepCopy()
		change(&c)
		return c
	}
	term := func(a corev1.PodAffinityTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{a}}}
		}
	}
	const at = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
	checkPods(t, []refusal{
		{"spread", spreads(ok), nil},
		{"spread twice", spreads(ok, ok), []string{`spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"`}},
		{"policies", spreads(with(func(c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicy("x")), new(corev1.NodeInclusionPolicy("y"))
		})), []string{
			`topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: "x": supported values: "Honor", "Ignore"`,
			`topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "y": supported values: "Honor", "Ignore"`,
		}},
		{"domains", spreads(with(func(c *corev1.TopologySpreadConstraint) {
			c.MinDomains, c.WhenUnsatisfiable = new(int32(0)), corev1.ScheduleAnyway
		})), []string{
			"topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero",
			"topologySpreadConstraints[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
		}},
		{"keys without selector", spreads(with(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"app"} })),
			[]string{"topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"}},
		{"keys of the selector", spreads(with(func(c *corev1.TopologySpreadConstraint) {
			c.MatchLabelKeys, c.LabelSelector = []string{"app"}, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}, MatchExpressions: in}
		})), []string{`topologySpreadConstraints[0][0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector`}},
		{"keys that the pod added", spreads(with(func(c *corev1.TopologySpreadConstraint) {
			c.MatchLabelKeys, c.LabelSelector = []string{"app"}, &metav1.LabelSelector{MatchExpressions: in}
		})), nil},
		{"term", term(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: app(), MatchLabelKeys: []string{"v"}}), nil},
		{"term with neither", term(corev1.PodAffinityTerm{MatchLabelKeys: []string{"v"}, Namespaces: []string{"A"}}), []string{
			at + ".matchLabelKeys: Forbidden: must not be specified when labelSelector is not set", at + ".topologyKey: Required value: can not be empty",
			at + `.topologyKey: Invalid value: "": name part must be non-empty`, at + `.namespace: Invalid value: "A"`,
		}},
		{"term with both keys", term(corev1.PodAffinityTerm{
			TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"v": "1"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "v", Operator: "Exists"}}},
			MatchLabelKeys: []string{"v"}, MismatchLabelKeys: []string{"v", "/"},
		}), []string{
			at + `.mismatchLabelKeys[1]: Invalid value: "/"`, at + `[0]: Invalid value: "v": exists in both matchLabelKeys and labelSelector`,
			at + `.matchLabelKeys[0]: Invalid value: "v": exists in both matchLabelKeys and mismatchLabelKeys`,
		}},
		{"fields of nodes", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"N"}}, {Key: "x", Operator: "Gt"}}}},
			}}}
		}, []string{`matchFields[0].values[0]: Invalid value: "N"`, `matchFields[1].key: Invalid value: "x": not a valid field selector key`, `matchFields[1].operator: Invalid value: "Gt": not a valid selector operator`}},
		{"tolerations", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists", Value: "x"}, {Key: "a", Operator: corev1.TolerationOpGt, Value: "1"}}
		}, []string{
			"spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
			`spec.tolerations[1].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"`,
		}},
	})
}

func TestConfinement(t *testing.T) {
	note := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	const armor, seccompOne = "container.apparmor.security.beta.kubernetes.io/web", "container.seccomp.security.alpha.kubernetes.io/web"
	sysctl := func(host bool, names ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.Spec.HostIPC = host, host
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
			for _, name := range names {
				p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: name})
			}
		}
	}
	checkPods(t, []refusal{
		{"mirror", note("kubernetes.io/config.mirror", "x"), []string{`metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set`}},
		{"cost", note("controller.kubernetes.io/pod-deletion-cost", "007"), []string{`metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "007": must be a 32bit integer`}},
		{"good cost", note("controller.kubernetes.io/pod-deletion-cost", "-7"), nil},
		{"seccomp", note(seccompOne, "odd"), []string{`Invalid value: "odd": must be a valid seccomp profile`}},
		{"armor", note(armor, "odd"), []string{`metadata.annotations[` + armor + `]: Invalid value: "odd": invalid AppArmor profile name: "odd"`}},
		{"armor of no container", note(armor+"x", "unconfined"), []string{`Invalid value: "webx": container not found`}},
		{"other seccomp", func(p *corev1.Pod) {
			p.Annotations = map[string]string{seccompOne: "localhost/a", seccompPod: "unconfined"}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
			first(p).SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("b")}}
		}, []string{
			"spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
			"spec.containers[0].securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field must match",
		}},
		{"other armor", func(p *corev1.Pod) {
			p.Annotations = map[string]string{armor: "runtime/default"}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}
		}, []string{"spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match"}},
		{"profiles", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{}, AppArmorProfile: &corev1.AppArmorProfile{}, SELinuxChangePolicy: new(corev1.PodSELinuxChangePolicy("x")),
			}
			first(p).SecurityContext = &corev1.SecurityContext{
				AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new(" a")}, ProcMount: new(corev1.UnmaskedProcMount),
			}
		}, []string{
			"spec.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set",
			"spec.securityContext.appArmorProfile.type: Required value: type is required when appArmorProfile is set",
			`spec.securityContext.seLinuxChangePolicy: Unsupported value: "x": supported values: "MountOption", "Recursive"`,
			`spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace`,
			"spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
		}},
		{"sysctls", sysctl(false, "net.core.somaxconn", "net/ipv4/ip_forward", "kernel.shmmax"), nil},
		{"bad sysctls", sysctl(false, "", "A.b", "a.b", "a.b"), []string{
			"spec.securityContext.sysctls[0].name: Required value", `spec.securityContext.sysctls[1].name: Invalid value: "A.b": must have at most 253 characters and match regex`,
			`spec.securityContext.sysctls[3].name: Duplicate value: "a.b"`,
		}},
		{"the host's sysctls", sysctl(true, "net/core/somaxconn", "kernel.msgmax", "fs.file"), []string{
			`sysctls[0].name: Invalid value: "net/core/somaxconn": may not be specified when 'hostNetwork' is true`,
			`sysctls[1].name: Invalid value: "kernel.msgmax": may not be specified when 'hostIPC' is true`,
		}},
	})
}

func TestRestartsAndVariables(t *testing.T) {
	rule := func(action, operator string) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleAction(action), ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOperator(operator)}}
	}
	file := func(ref corev1.FileKeySelector, volumes ...corev1.Volume) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = volumes
			first(p).Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &ref}}}
		}
	}
	const ref = "spec.containers[0].env[0].valueFrom.fileKeyRef."
	checkPods(t, []refusal{
		{"rules", func(p *corev1.Pod) {
			first(p).RestartPolicy, first(p).RestartPolicyRules = new(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule("Restart", "In")}
		}, nil},
		{"bad rules", func(p *corev1.Pod) {
			first(p).RestartPolicyRules = append(make([]corev1.ContainerRestartRule, 19), rule("Stop", "Equals"), rule("Restart", "In"))
			first(p).RestartPolicyRules[20].ExitCodes.Values = make([]int32, 256)
		}, []string{
			"spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
			"spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items", "restartPolicyRules[0].exitCodes: Required value: must be specified",
			`restartPolicyRules[19].action: Unsupported value: "Stop": supported values: "Restart", "RestartAllContainers"`,
			`restartPolicyRules[19].exitCodes.operator: Unsupported value: "Equals": supported values: "In", "NotIn"`,
			"restartPolicyRules[20].exitCodes.values: Too many: 256: must have at most 255 items",
		}},
		{"resize policies", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			first(p).ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: "RestartContainer"}, {ResourceName: "cpu", RestartPolicy: "x"}, {ResourceName: "disk", RestartPolicy: "NotRequired"}}
		}, []string{
			`resizePolicy[1]: Duplicate value: "cpu"`, `resizePolicy: Unsupported value: "x": supported values: "NotRequired", "RestartContainer"`,
			`resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"`, "resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'",
		}},
		{"sleep", func(p *corev1.Pod) {
			first(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 31}}, PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}}
		}, []string{"spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"}},
		{"signal", func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
			first(p).Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGHUP)}
		}, []string{`lifecycle.stopSignal: Unsupported value: "SIGHUP": supported values: "SIGKILL", "SIGTERM"`}},
		{"linux signal", func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
			first(p).Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGHUP)}
		}, nil},
		{"variable of a file", file(corev1.FileKeySelector{VolumeName: "v", Path: "a", Key: "K"}, corev1.Volume{Name: "v"}), nil},
		{"bad variable", file(corev1.FileKeySelector{VolumeName: "v", Path: "../a", Key: strings.Repeat("k", 129)}), []string{
			ref + `volumeName: Not found: "v"`, ref + `path: Invalid value: "../a": must not contain '..'`,
		}},
		{"keys of maps", func(p *corev1.Pod) {
			first(p).Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "a/b"}}}}
			first(p).EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "A"}}}, {SecretRef: &corev1.SecretEnvSource{}}}
		}, []string{
			`env[0].valueFrom.secretKeyRef.name: Invalid value: ""`, `env[0].valueFrom.secretKeyRef.key: Invalid value: "a/b"`,
			`envFrom[0].configMapRef.name: Invalid value: "A"`, "envFrom[1].secretRef.name: Required value",
		}},
		{"divisors", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "a", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "web", Resource: "limits.cpu", Divisor: resource.MustParse("1Mi")}},
				{Path: "b", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "web", Resource: "limits.memory", Divisor: resource.MustParse("3")}},
				{Path: "c", ResourceFieldRef: &corev1.ResourceFieldSelector{}},
			}}}}}
		}, []string{
			`downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource`,
			`divisor: Invalid value: "limits.memory": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource`,
			"downwardAPI.resourceFieldRef.containerName: Required value",
		}},
	})
}
