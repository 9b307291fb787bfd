package defaults

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Kubernetes' defaults for pods.
const (
	graceSeconds         = 30
	tokenSeconds         = 3600
	probeTimeout         = 1
	probePeriod          = 10
	probeSuccesses       = 1
	probeFailures        = 3
	milli                = resource.Milli
	defaultMode    int32 = 0o644
)

// Pod sets the defaults of a pod: those of a template's spec, and the ones that only pods have. The
// latter are requests from limits, service links, the shortest grace period in place of a negative one,
// and host ports on the host's network.
func Pod(pod *corev1.Pod) {
	PodSpec(&pod.Spec)
	set(&pod.Spec.EnableServiceLinks, true)
	if *pod.Spec.TerminationGracePeriodSeconds < 0 {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			requestsFromLimits(&containers[i].Resources)
			if pod.Spec.HostNetwork {
				hostPorts(containers[i].Ports)
			}
		}
	}
	switch s := &pod.Status; { // The first address is in both fields.
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
	s := &pod.Status
	roundUp(s.AllocatedResources)
	requirements(s.Resources)
	for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range statuses {
			roundUp(statuses[i].AllocatedResources)
			requirements(statuses[i].Resources)
		}
	}
}

func requirements(r *corev1.ResourceRequirements) {
	if r != nil {
		roundUp(r.Limits)
		roundUp(r.Requests)
	}
}

// hostPorts sets the host ports of a pod on the host's network to its own ports.
func hostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		if ports[i].HostPort == 0 {
			ports[i].HostPort = ports[i].ContainerPort
		}
	}
}

// PodTemplate sets the defaults of the template of a workload.
func PodTemplate(template *corev1.PodTemplateSpec) { PodSpec(&template.Spec) }

// PodSpec sets the defaults that pods and templates share.
func PodSpec(spec *corev1.PodSpec) {
	setString(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setString(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setString(&spec.SchedulerName, corev1.DefaultSchedulerName)
	set(&spec.TerminationGracePeriodSeconds, int64(graceSeconds))
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	} else {
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
	}
	roundUp(spec.Overhead)
	requirements(spec.Resources)
	for i := range spec.Volumes {
		volume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		container(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		container(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		container(&c)
		spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
}

func container(c *corev1.Container) {
	setString(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setString(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	setString(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		setString(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			fieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				set(&from.FileKeyRef.Optional, false)
			}
		}
	}
	requirements(&c.Resources)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		fillProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				httpGet(hook.HTTPGet)
			}
		}
	}
}

// pullPolicy returns Always for the tag "latest", which an image without tag and digest has.
func pullPolicy(image string) corev1.PullPolicy {
	if tag := ImageTag(image); tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// ImageTag returns the tag of an image reference: "latest" if it has neither tag nor digest, and
// empty if it has only a digest or is not a reference.
func ImageTag(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	if tagged, ok := named.(reference.Tagged); ok {
		return tagged.Tag()
	}
	if _, ok := named.(reference.Digested); ok {
		return ""
	}
	return "latest"
}

func fillProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setNumber(&p.TimeoutSeconds, probeTimeout)
	setNumber(&p.PeriodSeconds, probePeriod)
	setNumber(&p.SuccessThreshold, probeSuccesses)
	setNumber(&p.FailureThreshold, probeFailures)
	httpGet(p.HTTPGet)
	if p.GRPC != nil {
		set(&p.GRPC.Service, "")
	}
}

func httpGet(action *corev1.HTTPGetAction) {
	if action != nil {
		setString(&action.Path, "/")
		setString(&action.Scheme, corev1.URISchemeHTTP)
	}
}

func volume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		set(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Secret != nil {
		set(&v.Secret.DefaultMode, defaultMode)
	}
	if v.ConfigMap != nil {
		set(&v.ConfigMap.DefaultMode, defaultMode)
	}
	if v.DownwardAPI != nil {
		set(&v.DownwardAPI.DefaultMode, defaultMode)
		for i := range v.DownwardAPI.Items {
			fieldRef(v.DownwardAPI.Items[i].FieldRef)
		}
	}
	if v.Projected != nil {
		projected(v.Projected)
	}
	if v.Image != nil {
		setString(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	externalVolume(v.ISCSI, v.RBD, v.AzureDisk, v.ScaleIO)
}

// externalVolume sets the defaults of volumes in external storage.
func externalVolume(i *corev1.ISCSIVolumeSource, r *corev1.RBDVolumeSource, d *corev1.AzureDiskVolumeSource, s *corev1.ScaleIOVolumeSource) {
	if i != nil {
		setString(&i.ISCSIInterface, "default")
	}
	if r != nil {
		setString(&r.RBDPool, "rbd")
		setString(&r.RadosUser, "admin")
		setString(&r.Keyring, "/etc/ceph/keyring")
	}
	azureDisk(d)
	if s != nil {
		setString(&s.StorageMode, "ThinProvisioned")
		setString(&s.FSType, "xfs")
	}
}

func azureDisk(d *corev1.AzureDiskVolumeSource) {
	if d != nil {
		set(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		set(&d.Kind, corev1.AzureSharedBlobDisk)
		set(&d.FSType, "ext4")
		set(&d.ReadOnly, false)
	}
}

func projected(p *corev1.ProjectedVolumeSource) {
	set(&p.DefaultMode, defaultMode)
	for i := range p.Sources {
		if token := p.Sources[i].ServiceAccountToken; token != nil {
			set(&token.ExpirationSeconds, int64(tokenSeconds))
		}
		if certificate := p.Sources[i].PodCertificate; certificate != nil {
			set(&certificate.MaxExpirationSeconds, int32(certificateSeconds))
		}
		if down := p.Sources[i].DownwardAPI; down != nil {
			for j := range down.Items {
				fieldRef(down.Items[j].FieldRef)
			}
		}
	}
}

func fieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		setString(&ref.APIVersion, "v1")
	}
}

// requestsFromLimits sets missing requests to the limits.
func requestsFromLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// roundUp rounds quantities up to thousandths, the finest resolution that Kubernetes keeps.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(milli)
		list[name] = quantity
	}
}

func set[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}

func setString[T ~string](to *T, value T) {
	if *to == "" {
		*to = value
	}
}

func setNumber(to *int32, value int32) {
	if *to == 0 {
		*to = value
	}
}
