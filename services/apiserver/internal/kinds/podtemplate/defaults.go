package podtemplate

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Kubernetes' defaults for pods.
const (
	graceSeconds   = 30
	probeTimeout   = 1
	probePeriod    = 10
	probeSuccesses = 1
	probeFailures  = 3
	milli          = resource.Milli
)

// DefaultPod sets the defaults of a pod: those of a template's spec, and the ones that only pods have. The
// latter are requests from limits, service links, the shortest grace period in place of a negative one,
// and host ports on the host's network.
func DefaultPod(pod *corev1.Pod) {
	defaultPodSpec(&pod.Spec)
	kinds.Fill(&pod.Spec.EnableServiceLinks, true)
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
	RoundUp(s.AllocatedResources)
	requirements(s.Resources)
	for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range statuses {
			RoundUp(statuses[i].AllocatedResources)
			requirements(statuses[i].Resources)
		}
	}
}

func requirements(r *corev1.ResourceRequirements) {
	if r != nil {
		RoundUp(r.Limits)
		RoundUp(r.Requests)
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

// DefaultPodTemplate sets the defaults of the template of a workload.
func DefaultPodTemplate(template *corev1.PodTemplateSpec) { defaultPodSpec(&template.Spec) }

// defaultPodSpec sets the defaults that pods and templates share.
func defaultPodSpec(spec *corev1.PodSpec) {
	kinds.FillString(&spec.DNSPolicy, corev1.DNSClusterFirst)
	kinds.FillString(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	kinds.FillString(&spec.SchedulerName, corev1.DefaultSchedulerName)
	kinds.Fill(&spec.TerminationGracePeriodSeconds, int64(graceSeconds))
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	} else {
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
	}
	RoundUp(spec.Overhead)
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
	kinds.FillString(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	kinds.FillString(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	kinds.FillString(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		kinds.FillString(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			fieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				kinds.Fill(&from.FileKeyRef.Optional, false)
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
	if tag := defaultImageTag(image); tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// defaultImageTag returns the tag of an image reference: "latest" if it has neither tag nor digest, and
// empty if it has only a digest or is not a reference.
func defaultImageTag(image string) string {
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
	kinds.FillNumber(&p.TimeoutSeconds, probeTimeout)
	kinds.FillNumber(&p.PeriodSeconds, probePeriod)
	kinds.FillNumber(&p.SuccessThreshold, probeSuccesses)
	kinds.FillNumber(&p.FailureThreshold, probeFailures)
	httpGet(p.HTTPGet)
	if p.GRPC != nil {
		kinds.Fill(&p.GRPC.Service, "")
	}
}

func httpGet(action *corev1.HTTPGetAction) {
	if action != nil {
		kinds.FillString(&action.Path, "/")
		kinds.FillString(&action.Scheme, corev1.URISchemeHTTP)
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

// RoundUp rounds quantities up to thousandths, the finest resolution that Kubernetes keeps.
func RoundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(milli)
		list[name] = quantity
	}
}
