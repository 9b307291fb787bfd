package admit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Unsupported returns the fields of a pod's spec that request what this node agent cannot do, as
// paths ("spec.containers[0].volumeDevices"). A pod with any of them is not started: ignoring a
// field would run something other than requested. See UnsupportedEphemeral for ephemeral containers:
// they are added to an existing pod, which runs on without them.
func Unsupported(pod *corev1.Pod) []string {
	var u fields
	spec := &pod.Spec
	u.add(len(spec.ResourceClaims) > 0, "spec.resourceClaims")
	u.add(spec.RuntimeClassName != nil && *spec.RuntimeClassName != "", "spec.runtimeClassName")
	u.add(spec.HostUsers != nil && !*spec.HostUsers, "spec.hostUsers")
	u.add(spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN, "spec.setHostnameAsFQDN")
	u.add(spec.HostnameOverride != nil, "spec.hostnameOverride")
	u.add(spec.OS != nil && spec.OS.Name != corev1.Linux, "spec.os")
	u.add(spec.Resources != nil, "spec.resources")
	if s := spec.SecurityContext; s != nil {
		u.add(s.WindowsOptions != nil, "spec.securityContext.windowsOptions")
		u.add(s.AppArmorProfile != nil && s.AppArmorProfile.Type == corev1.AppArmorProfileTypeLocalhost, "spec.securityContext.appArmorProfile")
		u.add(s.SupplementalGroupsPolicy != nil && *s.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict, "spec.securityContext.supplementalGroupsPolicy")
	}
	for i := range spec.Volumes {
		u.volume(&spec.Volumes[i], fmt.Sprintf("spec.volumes[%d]", i))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		path := fmt.Sprintf("spec.initContainers[%d]", i)
		u.add(c.RestartPolicy != nil && *c.RestartPolicy != corev1.ContainerRestartPolicyAlways, path+".restartPolicy")
		u.container(c, path)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		path := fmt.Sprintf("spec.containers[%d]", i)
		u.add(c.RestartPolicy != nil, path+".restartPolicy")
		u.container(c, path)
	}
	return u
}

// UnsupportedEphemeral returns the fields of one of a pod's ephemeral containers that request what
// this node agent cannot do, in the form of Unsupported. Such a container is not started.
func UnsupportedEphemeral(pod *corev1.Pod, name string) []string {
	var u fields
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			u.container((*corev1.Container)(&c.EphemeralContainerCommon), fmt.Sprintf("spec.ephemeralContainers[%d]", i))
		}
	}
	return u
}

type fields []string

func (u *fields) add(unsupported bool, path string) {
	if unsupported {
		*u = append(*u, path)
	}
}

func (u *fields) volume(v *corev1.Volume, path string) {
	switch {
	case v.HostPath != nil, v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
	case v.EmptyDir != nil:
		known := []corev1.StorageMedium{corev1.StorageMediumDefault, corev1.StorageMediumMemory}
		u.add(!slices.Contains(known, v.EmptyDir.Medium), path+".emptyDir.medium")
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			s := &v.Projected.Sources[i]
			known := s.ConfigMap != nil || s.Secret != nil || s.DownwardAPI != nil || s.ServiceAccountToken != nil || s.ClusterTrustBundle != nil
			u.add(!known, fmt.Sprintf("%s.projected.sources[%d]", path, i))
		}
	case v.CSI != nil:
		u.add(true, path+".csi")
	case v.NFS != nil:
		u.add(true, path+".nfs")
	case v.Image != nil:
		u.add(true, path+".image")
	default:
		u.add(true, path)
	}
}

func (u *fields) container(c *corev1.Container, path string) {
	u.add(len(c.VolumeDevices) > 0, path+".volumeDevices")
	u.add(len(c.Resources.Claims) > 0, path+".resources.claims")
	u.add(len(c.RestartPolicyRules) > 0, path+".restartPolicyRules")
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		at := fmt.Sprintf("%s.volumeMounts[%d]", path, i)
		u.add(m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled, at+".recursiveReadOnly")
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			known := from.FieldRef != nil || from.ResourceFieldRef != nil || from.ConfigMapKeyRef != nil || from.SecretKeyRef != nil
			u.add(!known, fmt.Sprintf("%s.env[%d].valueFrom", path, i))
		}
	}
	if l := c.Lifecycle; l != nil {
		u.add(l.StopSignal != nil, path+".lifecycle.stopSignal")
		u.add(l.PostStart != nil && l.PostStart.TCPSocket != nil, path+".lifecycle.postStart.tcpSocket")
		u.add(l.PreStop != nil && l.PreStop.TCPSocket != nil, path+".lifecycle.preStop.tcpSocket")
	}
	if s := c.SecurityContext; s != nil {
		u.add(s.WindowsOptions != nil, path+".securityContext.windowsOptions")
		u.add(s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount, path+".securityContext.procMount")
		u.add(s.AppArmorProfile != nil && s.AppArmorProfile.Type == corev1.AppArmorProfileTypeLocalhost, path+".securityContext.appArmorProfile")
	}
}
