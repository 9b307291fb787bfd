package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func first(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }

func onWindows(change func(o *corev1.WindowsSecurityContextOptions)) *corev1.SecurityContext {
	o := &corev1.WindowsSecurityContextOptions{}
	change(o)
	return &corev1.SecurityContext{WindowsOptions: o}
}

// refusal is a change of a valid pod and the expected errors; without errors the pod stays valid.
type refusal struct {
	name   string
	change func(*corev1.Pod)
	want   []string
}

func checkPods(t *testing.T, cases []refusal) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := valid()
			tc.change(p)
			podtemplate.DefaultPod(p)
			checkErrors(t, Validate(p).ToAggregate(), tc.want)
		})
	}
}

// checkExactly checks that each changed pod has exactly these errors, in any order.
func checkExactly(t *testing.T, cases []refusal) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := valid()
			tc.change(p)
			podtemplate.DefaultPod(p)
			errortest.Exactly(t, sorted(Validate(p)), slices.Sorted(slices.Values(tc.want))...)
		})
	}
}

func sorted(errs field.ErrorList) field.ErrorList {
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func TestSystem(t *testing.T) {
	const long = 64<<10 + 1
	user := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			first(p).SecurityContext = onWindows(func(o *corev1.WindowsSecurityContextOptions) { o.RunAsUserName = &name })
		}
	}
	checkPods(t, []refusal{
		{"no such system", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} }, []string{`spec.os: Unsupported value: "plan9": supported values: "linux", "windows"`}},
		{"windows options on linux", func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}
			first(p).SecurityContext = onWindows(func(*corev1.WindowsSecurityContextOptions) {})
		}, []string{
			"spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
			"spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
		}},
		{"linux fields on windows", func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
			p.Spec.HostPID = true
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1)), FSGroup: new(int64(1))}
			first(p).SecurityContext = &corev1.SecurityContext{Privileged: new(true), Capabilities: &corev1.Capabilities{}}
		}, []string{
			"spec.hostPID: Forbidden: cannot be set for a windows pod", "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
			"spec.securityContext.fsGroup: Forbidden", "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
			"spec.containers[0].securityContext.capabilities: Forbidden",
		}},
		{"users of its own and the host's network", func(p *corev1.Pod) { p.Spec.HostUsers, p.Spec.HostNetwork, p.Spec.HostIPC = new(false), true, true },
			[]string{"spec.hostNetwork: Forbidden: when `hostUsers` is false", "spec.HostIPC: Forbidden: when `hostUsers` is false"}},
		{"users of its own", func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }, nil},
		{"stop signal", func(p *corev1.Pod) { first(p).Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGTERM)} },
			[]string{"spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"}},
		{"one process of the host", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
			first(p).SecurityContext = onWindows(func(o *corev1.WindowsSecurityContextOptions) { o.HostProcess = new(true) })
		}, []string{
			"spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
			"spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
		}},
		{"processes of the host and not", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}
			first(p).SecurityContext = onWindows(func(o *corev1.WindowsSecurityContextOptions) { o.HostProcess = new(false) })
		}, []string{"windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true"}},
		{"credentials", func(p *corev1.Pod) {
			first(p).SecurityContext = onWindows(func(o *corev1.WindowsSecurityContextOptions) {
				o.GMSACredentialSpecName, o.GMSACredentialSpec = new("A_b"), new(strings.Repeat("x", long))
			})
		}, []string{`gmsaCredentialSpecName: Invalid value: "A_b"`, "gmsaCredentialSpec size must be under 64 KiB"}},
		{"a user", user(`DOMAIN\some one`), nil},
		{"no user", user(""), []string{"runAsUserName cannot be an empty string"}},
		{"no user of a domain", user(`d\`), []string{"runAsUserName's User cannot be empty"}},
		{"two backslashes", user(`a\b\c`), []string{"cannot contain more than one backslash"}},
		{"periods", user(".. ."), []string{"cannot contain only periods or spaces"}},
		{"odd user", user("a@b"), []string{"User cannot contain the following characters"}},
		{"odd domain", user(`a:b\c`), []string{"Domain doesn't match the NetBios nor the DNS format"}},
		{"bell", user("a\a"), []string{"cannot contain control characters"}},
	})
}

func TestResourceClaims(t *testing.T) {
	claims := func(list ...corev1.PodResourceClaim) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.ResourceClaims = list }
	}
	use := func(used ...corev1.ResourceClaim) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("a")}, {Name: "nic", ResourceClaimName: new("b")}}
			first(p).Resources.Claims = used
		}
	}
	checkPods(t, []refusal{
		{"used", use(corev1.ResourceClaim{Name: "gpu", Request: "one"}, corev1.ResourceClaim{Name: "gpu", Request: "two"}, corev1.ResourceClaim{Name: "nic"}), nil},
		{"unnamed", use(corev1.ResourceClaim{}), []string{"spec.containers[0].resources.claims[0]: Required value"}},
		{"twice", use(corev1.ResourceClaim{Name: "gpu"}, corev1.ResourceClaim{Name: "gpu"}), []string{`claims[1]: Duplicate value: "gpu"`}},
		{"whole and part", use(corev1.ResourceClaim{Name: "gpu"}, corev1.ResourceClaim{Name: "gpu", Request: "one"}), []string{`claims[1]: Duplicate value: "gpu"`}},
		{"part and whole", use(corev1.ResourceClaim{Name: "gpu", Request: "one"}, corev1.ResourceClaim{Name: "gpu"}), []string{`claims[1]: Duplicate value: "gpu"`}},
		{"not the pod's", use(corev1.ResourceClaim{Name: "tpu"}), []string{`claims[0]: Not found: "tpu": must be one of the names in pod.spec.resourceClaims: gpu, nic`}},
		{"no claims", func(p *corev1.Pod) { first(p).Resources.Claims = []corev1.ResourceClaim{{Name: "tpu"}} }, []string{"must be one of the names in pod.spec.resourceClaims which is empty"}},
		{"no name", claims(corev1.PodResourceClaim{ResourceClaimName: new("a")}), []string{"spec.resourceClaims[0].name: Required value"}},
		{"same names", claims(corev1.PodResourceClaim{Name: "a", ResourceClaimName: new("a")}, corev1.PodResourceClaim{Name: "a", ResourceClaimName: new("b")}), []string{`spec.resourceClaims[1].name: Duplicate value: "a"`}},
		{"bad name", claims(corev1.PodResourceClaim{Name: "A", ResourceClaimName: new("a")}), []string{`spec.resourceClaims[0].name: Invalid value: "A"`}},
		{"neither", claims(corev1.PodResourceClaim{Name: "a"}), []string{"must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"}},
		{"both", claims(corev1.PodResourceClaim{Name: "a", ResourceClaimName: new("a"), ResourceClaimTemplateName: new("b")}), []string{"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"}},
		{"bad references", claims(corev1.PodResourceClaim{Name: "a", ResourceClaimName: new("A")}, corev1.PodResourceClaim{Name: "b", ResourceClaimTemplateName: new("B")}),
			[]string{`resourceClaims[0].resourceClaimName: Invalid value: "A"`, `resourceClaims[1].resourceClaimTemplateName: Invalid value: "B"`}},
		{"the same request twice", use(corev1.ResourceClaim{Name: "gpu", Request: "one"}, corev1.ResourceClaim{Name: "gpu", Request: "one"}), []string{`claims[1]: Duplicate value: "gpu/one"`}},
		{"bad request", use(corev1.ResourceClaim{Name: "gpu", Request: "A"}), []string{`spec.containers[0].resources.claims[0].request: Invalid value: "A"`}},
		{"of a static pod", func(p *corev1.Pod) {
			p.Annotations, p.Spec.NodeName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, "n"
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: new("a")}}
		}, []string{"Forbidden: static pods do not support resource claims"}},
	})
}

func TestResources(t *testing.T) {
	list := func(name corev1.ResourceName, value string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(value)}
	}
	limits := func(name corev1.ResourceName, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { first(p).Resources.Limits = list(name, value) }
	}
	whole := func(r corev1.ResourceRequirements) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Resources = &r }
	}
	const container = "spec.containers[0].resources."
	checkPods(t, []refusal{
		{"of the quota system", limits("requests.cpu", "1"), []string{container + `limits[requests.cpu]: Invalid value: "requests.cpu": must be a standard resource for containers`}},
		{"unknown", limits("nope", "1"), []string{
			container + `limits[nope]: Invalid value: "nope": must be a standard resource type or fully qualified`,
			container + `limits[nope]: Invalid value: "nope": must be a standard resource for containers`,
		}},
		{"no device", limits("requests.example.com/a", "1"), []string{container + `limits[requests.example.com/a]: Invalid value: "requests.example.com/a": doesn't follow extended resource name standard`}},
		{"half a device", limits("example.com/a", "0.5"), []string{container + `limits[example.com/a]: Invalid value: "500m": must be an integer`}},
		{"half of Kubernetes' own", limits("kubernetes.io/a", "0.5"), nil},
		{"devices without a limit", func(p *corev1.Pod) { first(p).Resources.Requests = list("example.com/a", "1") }, []string{container + "limits: Required value: Limit must be set for non overcommitable resources"}},
		{"of the whole pod", whole(corev1.ResourceRequirements{Limits: list("cpu", "1")}), nil},
		{"devices of the whole pod", whole(corev1.ResourceRequirements{Limits: list("example.com/a", "1")}), []string{`spec.resources.limits[example.com/a]: Unsupported value: "example.com/a": supported values: "cpu", "hugepages-", "memory"`}},
		{"claims of the whole pod", whole(corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{}}}), []string{"spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"}},
		{"a part larger than the whole", func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("cpu", "1")}
			first(p).Resources = corev1.ResourceRequirements{Requests: list("cpu", "2"), Limits: list("cpu", "2")}
		}, []string{
			`spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2`,
			`spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1`,
		}},
		{"of a whole pod on Windows", func(p *corev1.Pod) {
			p.Spec.OS, p.Spec.Resources = &corev1.PodOS{Name: corev1.Windows}, &corev1.ResourceRequirements{}
		}, []string{"spec.resources: Forbidden: may not be set for a windows pod"}},
	})
}

// TestLenience checks what Kubernetes leaves to others, and where it reports what it rejects.
func TestLenience(t *testing.T) {
	checkPods(t, []refusal{
		{"any host IP", func(p *corev1.Pod) { first(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, HostIP: "x"}} }, nil},
		{"any scheduler", func(p *corev1.Pod) { p.Spec.SchedulerName = "A_b" }, nil},
		{"any form of an alias' IP", func(p *corev1.Pod) { p.Spec.HostAliases = []corev1.HostAlias{{IP: "2001:DB8::1"}} }, nil},
		{"any topology key", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "-", WhenUnsatisfiable: corev1.DoNotSchedule}}
		}, nil},
		{"shared processes twice", func(p *corev1.Pod) { p.Spec.HostPID, p.Spec.ShareProcessNamespace = true, new(true) }, []string{
			"spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
		}},
		{"no name of the system", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{} }, []string{"spec.os.name: Required value"}},
		{"a toleration that compares", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpLt, Value: "1"}}
		}, []string{`spec.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt"`}},
		{"an empty host name", func(p *corev1.Pod) { p.Spec.HostnameOverride = new("") }, []string{`spec.hostnameOverride: Invalid value: "": a lowercase RFC 1123 subdomain`}},
		{"a device with users of its own", func(p *corev1.Pod) {
			p.Spec.HostUsers, first(p).VolumeDevices = new(false), []corev1.VolumeDevice{{Name: "v", DevicePath: "/a"}}
		}, []string{"spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"}},
		{"a mount without a name", func(p *corev1.Pod) { first(p).VolumeMounts = []corev1.VolumeMount{{MountPath: "/a"}} }, []string{
			"spec.containers[0].volumeMounts[0].name: Required value", `spec.containers[0].volumeMounts[0].name: Not found: ""`,
		}},
		{"a restart for a resize before the start", func(p *corev1.Pod) {
			c := *first(p).DeepCopy()
			c.Name, c.ResizePolicy = "init", []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}
			p.Spec.InitContainers = []corev1.Container{c}
		}, []string{`spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not be set to 'RestartContainer' for non-sidecar initContainers`}},
		{"ephemeral containers", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "x", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "e", Image: " a", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			}}}
		}, []string{
			"spec.ephemeralContainers: Forbidden: cannot be set on create", `spec.ephemeralContainers[0].targetContainerName: Not found: "x"`,
			"spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
			`spec.ephemeralContainers[0].image: Invalid value: " a": must not have leading or trailing whitespace`,
		}},
	})
}

func TestMounts(t *testing.T) {
	volumes := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		}
	}
	device := func(list ...corev1.VolumeDevice) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			volumes(p)
			first(p).VolumeDevices = list
		}
	}
	mount := func(m corev1.VolumeMount) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			volumes(p)
			first(p).VolumeMounts = []corev1.VolumeMount{m}
		}
	}
	checkPods(t, []refusal{
		{"device", device(corev1.VolumeDevice{Name: "c", DevicePath: "/dev/c"}), nil},
		{"device of a folder", device(corev1.VolumeDevice{Name: "v", DevicePath: "/dev/v"}), []string{"spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"}},
		{"device of nothing", device(corev1.VolumeDevice{Name: "x"}), []string{`volumeDevices[0].name: Not found: "x"`, "volumeDevices[0].devicePath: Required value"}},
		{"device twice", device(corev1.VolumeDevice{Name: "c", DevicePath: "/a"}, corev1.VolumeDevice{Name: "c", DevicePath: "/a"}), []string{"volumeDevices[1].name: Invalid value: \"c\": must be unique", "volumeDevices[1].devicePath: Invalid value: \"/a\": must be unique"}},
		{"device elsewhere", device(corev1.VolumeDevice{Name: "c", DevicePath: "/dev/../c"}), []string{"can not contain backsteps ('..')"}},
		{"device and mount", func(p *corev1.Pod) {
			device(corev1.VolumeDevice{Name: "c", DevicePath: "/c"})(p)
			first(p).VolumeMounts = []corev1.VolumeMount{{Name: "c", MountPath: "/c"}}
		}, []string{
			"volumeMounts[0].name: Invalid value: \"c\": must not already exist in volumeDevices", "volumeMounts[0].mountPath: Invalid value: \"/c\": must not already exist as a path in volumeDevices",
			"volumeDevices[0].name: Invalid value: \"c\": must not already exist in volumeMounts", "volumeDevices[0].devicePath: Invalid value: \"/c\": must not already exist as a path in volumeMounts",
		}},
		{"read-only all the way", mount(corev1.VolumeMount{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled)}), nil},
		{"not read-only at all", mount(corev1.VolumeMount{Name: "v", MountPath: "/v", RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled)}), []string{"recursiveReadOnly: Forbidden: may only be specified when readOnly is true"}},
		{"read-only and propagated", mount(corev1.VolumeMount{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled), MountPropagation: new(corev1.MountPropagationHostToContainer)}), []string{"may only be specified when mountPropagation is None or not specified"}},
		{"claim of another volume", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "web-e"}}},
			}
		}, []string{"spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: \"web-e\": must not reference a PVC that gets created for an ephemeral volume"}},
	})
}

func TestHugePages(t *testing.T) {
	limits := func(list corev1.ResourceList) func(*corev1.Pod) {
		return func(p *corev1.Pod) { first(p).Resources.Limits = list }
	}
	cpu := resource.MustParse("1")
	checkPods(t, []refusal{
		{"whole", limits(corev1.ResourceList{"cpu": cpu, "hugepages-2Mi": resource.MustParse("4Mi")}), nil},
		{"broken", limits(corev1.ResourceList{"cpu": cpu, "hugepages-2Mi": resource.MustParse("3Mi")}), []string{"3Mi is not positive integer multiple of hugepages-2Mi"}},
		{"alone", limits(corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}), []string{"spec.containers[0].resources: Forbidden: HugePages require cpu or memory"}},
	})
}

// TestHostNetworkOfATemplate checks that a template may leave host ports unset, which pods get as
// defaults.
func TestHostNetworkOfATemplate(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "a", Image: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}}}
	podtemplate.DefaultPodTemplate(template)
	if port := template.Spec.Containers[0].Ports[0].HostPort; port != 0 {
		t.Errorf("the template got the host's port %d", port)
	}
	if errs := Template(template, nil, field.NewPath("template")); len(errs) > 0 {
		t.Error(errs)
	}
}
