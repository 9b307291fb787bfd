package scheme

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// notActedOn lists the parts without effect, by "kind.group". A change that implements one must
// delete its rows here; test/promises fails until then.
func notActedOn() map[string][]NotActedOn {
	const (
		noPods    = "no pods are made for it; a Deployment runs pods"
		noDevices = "no device is allocated, and pods with spec.resourceClaims are not scheduled"
		noFlows   = "requests are not classified by it; each client has an even share"
	)
	whole := func(by, text string) []NotActedOn { return []NotActedOn{{By: by, Text: text}} }
	rows := map[string][]NotActedOn{
		"NetworkPolicy.networking.k8s.io":                         whole("network plugin", "no traffic is refused by it"),
		"ResourceClaim.resource.k8s.io":                           whole("DynamicResources", noDevices),
		"ResourceClaimTemplate.resource.k8s.io":                   whole("DynamicResources", noDevices),
		"CSIDriver.storage.k8s.io":                                whole("kubelet", "its volumes are attached to nodes, but no node mounts them"),
		"CSINode.storage.k8s.io":                                  whole("kubelet", "no driver registers with a node, and pods are placed without regard to its limits"),
		"DeviceClass.resource.k8s.io":                             whole("DynamicResources", noDevices),
		"ResourceSlice.resource.k8s.io":                           whole("DynamicResources", noDevices),
		"DeviceTaintRule.resource.k8s.io":                         whole("DynamicResources", noDevices),
		"FlowSchema.flowcontrol.apiserver.k8s.io":                 whole("API Priority and Fairness", noFlows),
		"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io": whole("API Priority and Fairness", noFlows),
		"PriorityClass.scheduling.k8s.io":                         whole("DefaultPreemption", "its pods are placed before others, but no pod is preempted for them"),
		"PodCertificateRequest.certificates.k8s.io":               whole("kubelet", "no certificate is issued, and projected sources of podCertificate are refused by an Event"),
		"RuntimeClass.node.k8s.io":                                whole("kubelet", "its handler is not used: pods with spec.runtimeClassName are refused by an Event"),
		"Lease.coordination.k8s.io":                               leaseRows(),
		"Service.":                                                serviceRows(),
		"Pod.": {
			{Subresource: "resize", By: "kubelet", Text: "the limits of running containers stay as they are; make the pod anew"},
		},
	}
	for _, name := range []string{
		"Pod.", "PodTemplate.", "ReplicationController.", "ReplicaSet.apps", "Deployment.apps", "DaemonSet.apps", "StatefulSet.apps",
		"Job.batch", "CronJob.batch",
	} {
		rows[name] = append(rows[name], podRows()...)
	}
	return rows
}

func leaseRows() []NotActedOn {
	return []NotActedOn{
		{
			Field: "spec.strategy", By: "CoordinatedLeaderElection", Text: dropped,
			set: of(func(l *coordinationv1.Lease) []string { return when(l.Spec.Strategy != nil, "spec.strategy") }),
		},
		{
			Field: "spec.preferredHolder", By: "CoordinatedLeaderElection", Text: dropped,
			set: of(func(l *coordinationv1.Lease) []string {
				return when(l.Spec.PreferredHolder != nil, "spec.preferredHolder")
			}),
		},
	}
}

func serviceRows() []NotActedOn {
	return []NotActedOn{
		{
			Field: "spec.type", By: "service-lb-controller", Text: "no load balancer is made",
			set: of(func(s *corev1.Service) []string {
				return when(s.Spec.Type == corev1.ServiceTypeLoadBalancer, "spec.type LoadBalancer")
			}),
		},
	}
}

// dropped says what becomes of the fields of features that are off by default.
const dropped = "its feature is off by default, as in Kubernetes, and the field is dropped"

// podRows are the fields of pods, and of pod templates, that the node agent neither implements nor
// refuses.
func podRows() []NotActedOn {
	return []NotActedOn{
		{
			Field: "spec.volumes[].emptyDir.sizeLimit", By: "eviction manager", Text: "the size of a volume on disk is not limited, and no pod is evicted; medium Memory is limited",
			set: inVolumes("emptyDir.sizeLimit", func(v *corev1.Volume) bool {
				return v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
			}),
		},
		{
			Field: "spec.containers[].resources.limits[ephemeral-storage]", By: "eviction manager", Text: "what containers write to disk is not limited, and no pod is evicted",
			set: inContainers("resources.limits[ephemeral-storage]", func(c *corev1.Container) bool {
				_, limited := c.Resources.Limits[corev1.ResourceEphemeralStorage]
				return limited
			}),
		},
		{
			Field: "spec.securityContext.seLinuxChangePolicy", By: "kubelet", Text: "volumes are not labelled for SELinux",
			set: inPods(func(_ *metav1.ObjectMeta, s *corev1.PodSpec) []string {
				return when(s.SecurityContext != nil && s.SecurityContext.SELinuxChangePolicy != nil, "spec.securityContext.seLinuxChangePolicy")
			}),
		},
		{
			Field: "spec.containers[].lifecycle.stopSignal", By: "kubelet", Text: dropped,
			set: inContainers("lifecycle.stopSignal", func(c *corev1.Container) bool {
				return c.Lifecycle != nil && c.Lifecycle.StopSignal != nil
			}),
		},
		{
			Field: "spec.containers[].volumeMounts[].bindMountOptions", By: "kubelet", Text: dropped,
			set: inContainers("volumeMounts[].bindMountOptions", func(c *corev1.Container) bool {
				for i := range c.VolumeMounts {
					if len(c.VolumeMounts[i].BindMountOptions) > 0 {
						return true
					}
				}
				return false
			}),
		},
		{
			Field: "spec.containers[].{livenessProbe,readinessProbe,startupProbe,lifecycle}.httpGet.protocol", By: "kubelet", Text: dropped,
			set: inContainers("httpGet.protocol", func(c *corev1.Container) bool {
				return anyHandler(c, func(h corev1.ProbeHandler) bool { return h.HTTPGet != nil && h.HTTPGet.Protocol != nil })
			}),
		},
		{
			Field: "spec.containers[].{livenessProbe,readinessProbe,startupProbe}.grpc.mode", By: "kubelet", Text: dropped,
			set: inContainers("grpc.mode", func(c *corev1.Container) bool {
				return anyHandler(c, func(h corev1.ProbeHandler) bool { return h.GRPC != nil && h.GRPC.Mode != nil })
			}),
		},
		{
			Field: "spec.volumes[].emptyDir.mode", By: "kubelet", Text: dropped,
			set: inVolumes("emptyDir.mode", func(v *corev1.Volume) bool { return v.EmptyDir != nil && v.EmptyDir.Mode != nil }),
		},
		{
			Field: "spec.volumes[].{configMap,secret,downwardAPI,projected}.defaultUser", By: "kubelet", Text: "the files of the volume belong to root",
			set: inVolumes("defaultUser", func(v *corev1.Volume) bool {
				return v.ConfigMap != nil && v.ConfigMap.DefaultUser != nil || v.Secret != nil && v.Secret.DefaultUser != nil ||
					v.DownwardAPI != nil && v.DownwardAPI.DefaultUser != nil || v.Projected != nil && v.Projected.DefaultUser != nil
			}),
		},
		{
			Field: "spec.schedulingGroup", By: "GangScheduling", Text: dropped,
			set: inPods(func(_ *metav1.ObjectMeta, s *corev1.PodSpec) []string {
				return when(s.SchedulingGroup != nil, "spec.schedulingGroup")
			}),
		},
		{
			Field: "spec.evictionResponders", By: "EvictionRequestAPI", Text: dropped,
			set: inPods(func(_ *metav1.ObjectMeta, s *corev1.PodSpec) []string {
				return when(len(s.EvictionResponders) > 0, "spec.evictionResponders")
			}),
		},
	}
}

// anyHandler reports whether a probe or a hook of a container has something.
func anyHandler(c *corev1.Container, has func(corev1.ProbeHandler) bool) bool {
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil && has(probe.ProbeHandler) {
			return true
		}
	}
	if c.Lifecycle == nil {
		return false
	}
	for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if hook != nil && has(corev1.ProbeHandler{HTTPGet: hook.HTTPGet}) {
			return true
		}
	}
	return false
}
