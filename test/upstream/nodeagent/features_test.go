package upstream

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime/conformance"
)

// feature sets one part of a pod. Each of its choices is a boundary; at random, one is taken.
type feature struct {
	name    string
	choices int
	set     func(p *corev1.Pod, choice int, r *rand.Rand)
	// debugs reports that an ephemeral container may have the feature too. inside sets it in a
	// container.
	debugs bool
	inside func(c *corev1.Container, choice int)
}

// of makes a feature of a list of values.
func of[T any](name string, set func(p *corev1.Pod, v T), values ...T) feature {
	return feature{name: name, choices: len(values), set: func(p *corev1.Pod, choice int, _ *rand.Rand) { set(p, values[choice]) }}
}

// in makes a feature of one of a pod's containers, at random an init or ephemeral container.
func in[T any](name string, set func(c *corev1.Container, v T), values ...T) feature {
	return feature{
		name: name, choices: len(values), debugs: true, inside: func(c *corev1.Container, choice int) { set(c, values[choice]) },
		set: func(p *corev1.Pod, choice int, r *rand.Rand) {
			all := append(containersOf(p), ephemeralOf(p)...)
			set(all[r.IntN(len(all))], values[choice])
		},
	}
}

// lasting makes a feature of one of a pod's containers that is not ephemeral.
func lasting[T any](name string, set func(c *corev1.Container, v T), values ...T) feature {
	return feature{name: name, choices: len(values), set: func(p *corev1.Pod, choice int, r *rand.Rand) {
		all := containersOf(p)
		set(all[r.IntN(len(all))], values[choice])
	}}
}

// debug adds an ephemeral container to a pod.
func debug(p *corev1.Pod) {
	name := fmt.Sprintf("debug-%d", len(p.Spec.EphemeralContainers))
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "registry.example/present:1"},
	})
}

func ephemeralOf(p *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range p.Spec.EphemeralContainers {
		all = append(all, (*corev1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return all
}

func containersOf(p *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range p.Spec.Containers {
		all = append(all, &p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		all = append(all, &p.Spec.InitContainers[i])
	}
	return all
}

func security(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	return c.SecurityContext
}

func podSecurity(p *corev1.Pod) *corev1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	return p.Spec.SecurityContext
}

func ptr[T any](v T) *T { return &v }

// plain is the smallest pod.
func plain(uid string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: conformance.Namespace},
		Spec: corev1.PodSpec{
			NodeName:   conformance.NodeName,
			Containers: []corev1.Container{{Name: "app", Image: "registry.example/present:1"}},
		},
	}
}

// features returns all of them.
func features() []feature {
	var all []feature
	for _, group := range [][]feature{
		shape(), process(), environment(), volumes(), amounts(), podRights(), containerRights(), network(), names(), ending(),
	} {
		all = append(all, group...)
	}
	return all
}

// shapes is the number of features that add containers: the first ones.
const shapes = 4

func shape() []feature {
	sidecar := ptr(corev1.ContainerRestartPolicyAlways)
	add := func(p *corev1.Pod, init bool, policy *corev1.ContainerRestartPolicy, prefix string) {
		c := corev1.Container{Name: fmt.Sprintf("%s-%d", prefix, len(containersOf(p))), Image: "registry.example/present:1", RestartPolicy: policy}
		if init {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			return
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return []feature{
		of("container", func(p *corev1.Pod, n int) {
			for range n {
				add(p, false, nil, "app")
			}
		}, 1, 2),
		of("init", func(p *corev1.Pod, n int) {
			for range n {
				add(p, true, nil, "init")
			}
		}, 1, 2),
		of("sidecar", func(p *corev1.Pod, n int) {
			for range n {
				add(p, true, sidecar, "side")
			}
		}, 1, 2),
		of("ephemeral", func(p *corev1.Pod, n int) {
			for range n {
				debug(p)
			}
		}, 1, 2),
		of("target", func(p *corev1.Pod, v string) {
			debug(p)
			p.Spec.EphemeralContainers[0].TargetContainerName = v
		}, "app"),
		of("target.late", func(p *corev1.Pod, shared *bool) {
			add(p, true, nil, "init")
			debug(p)
			p.Spec.EphemeralContainers[0].TargetContainerName, p.Spec.ShareProcessNamespace = "app", shared
		}, nil, ptr(true)),
		of("target.shared", func(p *corev1.Pod, host bool) {
			debug(p)
			p.Spec.EphemeralContainers[0].TargetContainerName, p.Spec.HostPID = "app", host
			if !host {
				p.Spec.ShareProcessNamespace = ptr(true)
			}
		}, false, true),
		of("restartPolicy", func(p *corev1.Pod, v corev1.RestartPolicy) { p.Spec.RestartPolicy = v },
			corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure),
		in("image", func(c *corev1.Container, v string) { c.Image = v },
			"registry.example/root:1", "registry.example/user:1", "registry.example/named:1", "registry.example/absent:1", "registry.example/absent", "nginx",
			conformance.Images()[7].Name, "private.example/team/app:1", "private.example:5000/app:1", "sub.wild.example/app:1",
			"docker.io/library/private:1", "registry.example/missing:1"),
		in("pullPolicy", func(c *corev1.Container, v corev1.PullPolicy) { c.ImagePullPolicy = v },
			corev1.PullAlways, corev1.PullNever, corev1.PullIfNotPresent),
		of("pullSecrets", func(p *corev1.Pod, v []string) {
			for _, name := range v {
				p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
			if strings.HasPrefix(p.Spec.Containers[0].Image, "registry") {
				p.Spec.Containers[0].Image = "private.example/team/app:1"
			}
		}, []string{"team"}, []string{"old", "team"}, []string{"missing"}, []string{"team", "missing", "old"}, []string{"keys"}),
	}
}

func process() []feature {
	references := []string{"$(COLOR)", "$(POD)-$(NOBODY)", "$$(COLOR)", "$$$(COLOR)", "$(COLOR", "$", "$()", "a$(WEB_SERVICE_HOST)b", "$(HOST)$(HOST)", ""}
	return []feature{
		in("command", func(c *corev1.Container, v []string) { c.Command = v }, []string{"sh"}, []string{"sh", "-c", "echo $(POD) $(COLOR) $HOME"}, references, []string{""}),
		in("args", func(c *corev1.Container, v []string) { c.Args = v }, []string{"x"}, references, []string{"$(KUBERNETES_SERVICE_HOST)"}),
		in("workingDir", func(c *corev1.Container, v string) { c.WorkingDir = v }, "/srv", "relative", "/a/../b"),
		in("stdin", func(c *corev1.Container, v [3]bool) { c.Stdin, c.StdinOnce, c.TTY = v[0], v[1], v[2] },
			[3]bool{true}, [3]bool{true, true}, [3]bool{true, true, true}, [3]bool{false, false, true}),
	}
}

func environment() []feature {
	field := func(path string) corev1.EnvVar {
		return corev1.EnvVar{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	amount := func(container, name, divisor string) corev1.EnvVar {
		selector := &corev1.ResourceFieldSelector{ContainerName: container, Resource: name}
		if divisor != "" {
			selector.Divisor = resource.MustParse(divisor)
		}
		return corev1.EnvVar{Name: "AMOUNT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: selector}}
	}
	setting := func(object, key string, optional *bool) corev1.EnvVar {
		return corev1.EnvVar{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: optional,
		}}}
	}
	token := func(object, key string, optional *bool) corev1.EnvVar {
		return corev1.EnvVar{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: optional,
		}}}
	}
	from := func(prefix, object string, secret bool, optional *bool) corev1.EnvFromSource {
		ref := corev1.LocalObjectReference{Name: object}
		if secret {
			return corev1.EnvFromSource{Prefix: prefix, SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref, Optional: optional}}
		}
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref, Optional: optional}}
	}
	value := func(pairs ...string) []corev1.EnvVar {
		var list []corev1.EnvVar
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	more := func(c *corev1.Container, v []corev1.EnvVar) { c.Env = append(c.Env, v...) }
	one := func(c *corev1.Container, v corev1.EnvVar) { c.Env = append(c.Env, v) }
	return []feature{
		in("env", more, value("COLOR", "red"), value("A", "$(B)", "B", "$(A)"), value("A", "1", "A", "$(A)2"), value("X", ""),
			value("HOST", "$(WEB_SERVICE_HOST):$(WEB_SERVICE_PORT)"), value("HOST", "$$(X) $(X", "X", "$(HOST)"), value("WEB_SERVICE_HOST", "mine"),
			value("KUBERNETES_SERVICE_HOST", "mine"), value("with.dot", "1", "B", "$(with.dot)")),
		in("fieldRef", one, field("metadata.name"), field("metadata.namespace"), field("metadata.uid"), field("metadata.labels['app']"),
			field("metadata.annotations['note']"), field("metadata.labels['none']"), field("spec.nodeName"), field("spec.serviceAccountName"),
			field("status.hostIP"), field("status.hostIPs"), field("status.podIP"), field("status.podIPs")),
		in("resourceFieldRef", one, amount("", "limits.cpu", ""), amount("", "limits.memory", ""), amount("", "requests.cpu", "1m"),
			amount("", "requests.memory", "1Mi"), amount("", "limits.cpu", "1m"), amount("app", "limits.memory", "1Gi"), amount("", "limits.ephemeral-storage", ""),
			amount("", "requests.ephemeral-storage", "1Ki"), amount("", "limits.hugepages-2Mi", ""), amount("", "requests.hugepages-2Mi", "1Mi")),
		in("configMapKeyRef", one, setting("settings", "COLOR", nil), setting("settings", "none", nil), setting("settings", "none", ptr(true)),
			setting("none", "COLOR", nil), setting("none", "COLOR", ptr(true)), setting("settings", "EMPTY", nil), setting("settings", "REF", nil)),
		in("secretKeyRef", one, token("keys", "TOKEN", nil), token("keys", "BINARY", nil), token("keys", "none", nil), token("none", "TOKEN", nil),
			token("none", "TOKEN", ptr(true)), token("keys", "none", ptr(true))),
		in("envFrom", func(c *corev1.Container, v []corev1.EnvFromSource) { c.EnvFrom = append(c.EnvFrom, v...) },
			[]corev1.EnvFromSource{from("", "settings", false, nil)}, []corev1.EnvFromSource{from("P_", "settings", false, nil)},
			[]corev1.EnvFromSource{from("", "settings", false, nil), from("", "more", false, nil)},
			[]corev1.EnvFromSource{from("", "keys", true, nil)}, []corev1.EnvFromSource{from("", "none", true, nil)},
			[]corev1.EnvFromSource{from("", "none", false, nil)}, []corev1.EnvFromSource{from("", "none", false, ptr(true)), from("", "none", true, ptr(true))}),
		of("serviceLinks", func(p *corev1.Pod, v bool) { p.Spec.EnableServiceLinks = &v }, false, true),
		of("namespace", func(p *corev1.Pod, v string) { p.Namespace = v }, "default", "empty"),
	}
}

func volumes() []feature {
	mount := func(source corev1.VolumeSource, change func(*corev1.VolumeMount)) feature {
		return feature{name: "volume", choices: 1, set: func(p *corev1.Pod, _ int, r *rand.Rand) {
			name := fmt.Sprintf("v%d", len(p.Spec.Volumes))
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
			m := corev1.VolumeMount{Name: name, MountPath: "/mnt/" + name}
			change(&m)
			all := containersOf(p)
			if m.SubPath+m.SubPathExpr == "" {
				all = append(all, ephemeralOf(p)...)
			}
			c := all[r.IntN(len(all))]
			c.VolumeMounts = append(c.VolumeMounts, m)
		}}
	}
	as := func(*corev1.VolumeMount) {}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	settings := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}
	host := func(kind *corev1.HostPathType, path string) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: kind}}
	}
	all := []feature{
		mount(empty, as), mount(settings, as),
		mount(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr(resource.MustParse("1Mi"))}}, as),
		mount(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}, as),
		mount(corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}, as),
		mount(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
		}}}, as),
		mount(host(nil, "/tmp"), as), mount(host(ptr(corev1.HostPathDirectory), "/tmp"), func(m *corev1.VolumeMount) { m.ReadOnly = true }),
	}
	for _, change := range []func(*corev1.VolumeMount){
		func(m *corev1.VolumeMount) { m.ReadOnly = true },
		func(m *corev1.VolumeMount) {
			m.ReadOnly, m.RecursiveReadOnly = true, ptr(corev1.RecursiveReadOnlyDisabled)
		},
		func(m *corev1.VolumeMount) {
			m.ReadOnly, m.RecursiveReadOnly = true, ptr(corev1.RecursiveReadOnlyIfPossible)
		},
		func(m *corev1.VolumeMount) { m.SubPath = "a/b" },
		func(m *corev1.VolumeMount) { m.SubPathExpr = "$(KUBERNETES_SERVICE_PORT)/x" },
		func(m *corev1.VolumeMount) { m.SubPathExpr = "$(NOBODY)" },
		func(m *corev1.VolumeMount) { m.SubPathExpr = "$(KUBERNETES_SERVICE_PORT)$(NOBODY)" },
		func(m *corev1.VolumeMount) { m.SubPathExpr = "$$(KUBERNETES_SERVICE_PORT)" },
		func(m *corev1.VolumeMount) { m.MountPath = "relative" },
		func(m *corev1.VolumeMount) { m.MountPath = "/etc/hosts" },
		func(m *corev1.VolumeMount) { m.MountPropagation = ptr(corev1.MountPropagationHostToContainer) },
		func(m *corev1.VolumeMount) { m.MountPropagation = ptr(corev1.MountPropagationNone) },
	} {
		all = append(all, mount(empty, change))
	}
	both := mount(empty, func(m *corev1.VolumeMount) { m.MountPropagation = ptr(corev1.MountPropagationBidirectional) })
	return append(all, feature{name: "bidirectional", choices: 1, set: func(p *corev1.Pod, choice int, r *rand.Rand) {
		for _, c := range append(containersOf(p), ephemeralOf(p)...) {
			security(c).Privileged = ptr(true)
		}
		both.set(p, choice, r)
	}})
}

func amounts() []feature {
	list := func(pairs ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	type both struct{ requests, limits corev1.ResourceList }
	var values []both
	for _, cpu := range []string{"1m", "2m", "3m", "10m", "999m", "1", "1500m", "256", "300"} {
		values = append(values, both{requests: list("cpu", cpu)}, both{limits: list("cpu", cpu)})
	}
	for _, memory := range []string{"1", "1M", "64Mi", "1Gi", "16Gi", "15.5Gi", "20Gi", "500m"} {
		values = append(values, both{requests: list("memory", memory)}, both{limits: list("memory", memory)})
	}
	values = append(values,
		both{requests: list("cpu", "0", "memory", "0")}, both{limits: list("cpu", "0", "memory", "0")}, both{list("cpu", "0"), list("cpu", "1")},
		both{list("cpu", "1", "memory", "1Gi"), list("cpu", "1", "memory", "1Gi")}, both{list("cpu", "100m"), list("cpu", "1", "memory", "1Gi")},
		both{list("ephemeral-storage", "1Gi"), list("ephemeral-storage", "2Gi")},
		both{limits: list("hugepages-2Mi", "64Mi", "memory", "64Mi", "cpu", "1")}, both{limits: list("hugepages-1Gi", "1Gi", "memory", "64Mi")},
		both{list("example.com/gpu", "1"), list("example.com/gpu", "1")},
	)
	set := func(c *corev1.Container, v both) {
		c.Resources = corev1.ResourceRequirements{Requests: v.requests, Limits: v.limits}
	}
	return []feature{
		lasting("resources", set, values...), lasting("resources", set, values...),
		of("guaranteed", func(p *corev1.Pod, v string) {
			for _, c := range containersOf(p) {
				c.Resources = corev1.ResourceRequirements{Limits: list("cpu", v, "memory", "128Mi")}
			}
		}, "1", "250m"),
		of("overhead", func(p *corev1.Pod, v corev1.ResourceList) { p.Spec.Overhead = v }, list("cpu", "250m", "memory", "64Mi"), list("cpu", "1m")),
		of("priority", func(p *corev1.Pod, v int32) { p.Spec.Priority = &v }, 0, 2000000000, 2000001000),
		of("priorityClass", func(p *corev1.Pod, v string) {
			p.Spec.PriorityClassName = v
			p.Spec.Priority = ptr(int32(2000001000))
		}, "system-node-critical"),
	}
}

func podRights() []feature {
	groups := corev1.SupplementalGroupsPolicyMerge
	return []feature{
		of("pod.empty", func(p *corev1.Pod, _ bool) { podSecurity(p) }, true),
		of("pod.runAsUser", func(p *corev1.Pod, v int64) { podSecurity(p).RunAsUser = &v }, 0, 1, 1000, 2147483647),
		of("pod.runAsGroup", func(p *corev1.Pod, v int64) {
			podSecurity(p).RunAsGroup = &v
			podSecurity(p).RunAsUser = ptr(int64(7))
		}, 0, 3000),
		of("pod.runAsNonRoot", func(p *corev1.Pod, v bool) { podSecurity(p).RunAsNonRoot = &v }, true, false),
		of("pod.fsGroup", func(p *corev1.Pod, v int64) { podSecurity(p).FSGroup = &v }, 0, 2000),
		of("pod.groups", func(p *corev1.Pod, v []int64) { podSecurity(p).SupplementalGroups = v }, []int64{1}, []int64{5, 3, 5}, []int64{}),
		of("pod.groupsPolicy", func(p *corev1.Pod, v *corev1.SupplementalGroupsPolicy) { podSecurity(p).SupplementalGroupsPolicy = v }, &groups),
		of("pod.seccomp", func(p *corev1.Pod, v corev1.SeccompProfile) { podSecurity(p).SeccompProfile = &v },
			corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
			corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("profiles/a.json")}),
		of("pod.appArmor", func(p *corev1.Pod, v corev1.AppArmorProfile) { podSecurity(p).AppArmorProfile = &v },
			corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}, corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}),
		of("pod.sysctls", func(p *corev1.Pod, v []corev1.Sysctl) { podSecurity(p).Sysctls = v },
			[]corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}},
			[]corev1.Sysctl{{Name: "net/ipv4/ip_local_port_range", Value: "1024 65535"}, {Name: "kernel.shm_rmid_forced", Value: "0"}}),
		of("hostPID", func(p *corev1.Pod, v bool) { p.Spec.HostPID = v }, true),
		of("hostIPC", func(p *corev1.Pod, v bool) { p.Spec.HostIPC = v }, true),
		of("sharePID", func(p *corev1.Pod, v bool) { p.Spec.ShareProcessNamespace = &v }, true, false),
		of("hostUsers", func(p *corev1.Pod, v bool) { p.Spec.HostUsers = &v }, true),
	}
}

func containerRights() []feature {
	capabilities := func(add, drop []corev1.Capability) *corev1.Capabilities {
		return &corev1.Capabilities{Add: add, Drop: drop}
	}
	return []feature{
		in("empty", func(c *corev1.Container, _ bool) { security(c) }, true),
		in("runAsUser", func(c *corev1.Container, v int64) { security(c).RunAsUser = &v }, 0, 1000),
		in("runAsGroup", func(c *corev1.Container, v int64) {
			security(c).RunAsGroup = &v
			security(c).RunAsUser = ptr(int64(8))
		}, 0, 3000),
		in("runAsNonRoot", func(c *corev1.Container, v bool) { security(c).RunAsNonRoot = &v }, true, false),
		feature{name: "nonRootImage", choices: 6, set: func(p *corev1.Pod, choice int, _ *rand.Rand) {
			c := &p.Spec.Containers[0]
			c.Image = []string{"registry.example/root:1", "registry.example/user:1", "registry.example/named:1", "registry.example/present:1", "registry.example/absent:1", "nginx"}[choice]
			security(c).RunAsNonRoot = ptr(true)
		}},
		in("readOnlyRoot", func(c *corev1.Container, v bool) { security(c).ReadOnlyRootFilesystem = &v }, true, false),
		in("privileged", func(c *corev1.Container, v bool) { security(c).Privileged = &v }, true, false),
		in("escalation", func(c *corev1.Container, v bool) { security(c).AllowPrivilegeEscalation = &v }, true, false),
		in("capabilities", func(c *corev1.Container, v *corev1.Capabilities) { security(c).Capabilities = v },
			capabilities([]corev1.Capability{"NET_ADMIN"}, nil), capabilities(nil, []corev1.Capability{"ALL"}), capabilities(nil, nil),
			capabilities([]corev1.Capability{"CHOWN", "net_raw"}, []corev1.Capability{"all", "KILL"})),
		in("procMount", func(c *corev1.Container, v corev1.ProcMountType) { security(c).ProcMount = &v }, corev1.DefaultProcMount),
		in("seccomp", func(c *corev1.Container, v corev1.SeccompProfile) { security(c).SeccompProfile = &v },
			corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
			corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("b.json")}),
		in("appArmor", func(c *corev1.Container, v corev1.AppArmorProfile) { security(c).AppArmorProfile = &v },
			corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}, corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}),
	}
}

func network() []feature {
	port := func(container, host int32, protocol corev1.Protocol, name, ip string) corev1.ContainerPort {
		return corev1.ContainerPort{ContainerPort: container, HostPort: host, Protocol: protocol, Name: name, HostIP: ip}
	}
	return []feature{
		of("hostNetwork", func(p *corev1.Pod, v bool) { p.Spec.HostNetwork = v }, true),
		lasting("ports", func(c *corev1.Container, v []corev1.ContainerPort) { c.Ports = append(c.Ports, v...) },
			[]corev1.ContainerPort{port(80, 0, "", "", "")}, []corev1.ContainerPort{port(80, 8080, "TCP", "http", "")},
			[]corev1.ContainerPort{port(53, 53, "UDP", "dns", "127.0.0.1"), port(53, 53, "TCP", "dns-tcp", "::1"), port(9, 0, "SCTP", "", "")},
			[]corev1.ContainerPort{port(80, 8081, "TCP", "", ""), port(80, 8082, "TCP", "", "10.0.0.1"), port(80, 0, "UDP", "", "")},
			[]corev1.ContainerPort{port(81, 0, "TCP", "", ""), port(81, 0, "TCP", "", "")}),
		of("dnsPolicy", func(p *corev1.Pod, v corev1.DNSPolicy) {
			p.Spec.DNSPolicy = v
			if v == corev1.DNSNone && p.Spec.DNSConfig == nil {
				p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}}
			}
		}, corev1.DNSDefault, corev1.DNSNone, corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet),
		of("dnsConfig", func(p *corev1.Pod, v corev1.PodDNSConfig) { p.Spec.DNSConfig = &v },
			corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7", "192.0.2.8", "10.96.0.10"}, Searches: []string{"more.example", "example", "more.example"}},
			corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr("3")}, {Name: "edns0"}, {Name: "timeout", Value: ptr("")}}},
			corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots"}, {Name: "ndots", Value: ptr("4")}, {Name: "attempts", Value: ptr("2")}}},
			corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7", "192.0.2.8", "192.0.2.9"}, Searches: strings.Fields(strings.Repeat("a.example b.example ", 6))},
			corev1.PodDNSConfig{Searches: longSearches()}, corev1.PodDNSConfig{Searches: []string{".", "trailing.example.", "under_score.example"}},
			corev1.PodDNSConfig{Searches: numbered(32, "s")}, corev1.PodDNSConfig{}),
		of("hostAliases", func(p *corev1.Pod, v []corev1.HostAlias) { p.Spec.HostAliases = v },
			[]corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{"a", "b.example"}}, {IP: "::1", Hostnames: []string{"c"}}}),
	}
}

func numbered(n int, prefix string) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%s%d.example", prefix, i))
	}
	return list
}

func longSearches() []string {
	label := strings.Repeat("x", 60)
	var list []string
	for i := range 12 {
		list = append(list, fmt.Sprintf("%s.%s.%s.n%d", label, label, label, i))
	}
	return list
}

func names() []feature {
	return []feature{
		of("name", func(p *corev1.Pod, v string) { p.Name = v }, "a", "web-0", "dotted.name", strings.Repeat("n", 63), strings.Repeat("n", 64),
			strings.Repeat("n", 62)+"-end", strings.Repeat("n", 61)+".-.x"[:1]+"x.end", strings.Repeat("long.", 30)+"end"),
		of("hostname", func(p *corev1.Pod, v string) { p.Spec.Hostname = v }, "h", strings.Repeat("h", 63)),
		of("subdomain", func(p *corev1.Pod, v string) { p.Spec.Subdomain = v }, "sub", strings.Repeat("s", 63)),
		of("fqdn", func(p *corev1.Pod, v bool) { p.Spec.SetHostnameAsFQDN = &v }, false),
		of("labels", func(p *corev1.Pod, v map[string]string) { p.Labels = v }, map[string]string{"app": "web"},
			map[string]string{"app": "x", "io.kubernetes.pod.name": "other", "example.com/a": ""}),
		of("annotations", func(p *corev1.Pod, v map[string]string) { p.Annotations = v }, map[string]string{"note": "a\nb\"c"},
			map[string]string{"example.com/x": "1", "note": ""}),
		of("serviceAccount", func(p *corev1.Pod, v string) { p.Spec.ServiceAccountName = v }, "robot"),
	}
}

func ending() []feature {
	hook := func(v []string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: v}}
	}
	hooks := func(c *corev1.Container) *corev1.Lifecycle {
		if c.Lifecycle == nil {
			c.Lifecycle = &corev1.Lifecycle{}
		}
		return c.Lifecycle
	}
	return []feature{
		in("messagePath", func(c *corev1.Container, v string) { c.TerminationMessagePath = v }, "/tmp/message", "relative/message"),
		in("messagePolicy", func(c *corev1.Container, v corev1.TerminationMessagePolicy) { c.TerminationMessagePolicy = v },
			corev1.TerminationMessageFallbackToLogsOnError),
		of("grace", func(p *corev1.Pod, v int64) { p.Spec.TerminationGracePeriodSeconds = &v }, 0, 1, 2, 3, 3600),
		of("preStop", func(p *corev1.Pod, v []string) { hooks(&p.Spec.Containers[0]).PreStop = hook(v) }, []string{"stop", "now"}, []string{"false"}),
		of("postStart", func(p *corev1.Pod, v []string) { hooks(&p.Spec.Containers[0]).PostStart = hook(v) }, []string{"began"}, []string{"false"}),
		of("preStop.sleep", func(p *corev1.Pod, _ bool) {
			hooks(&p.Spec.Containers[0]).PreStop = &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}
		}, true),
		of("probe.unused", func(p *corev1.Pod, v int) {
			p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(v)}}}
		}, 80),
	}
}
