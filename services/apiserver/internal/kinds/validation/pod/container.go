package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers checks the containers of a pod with the given volumes, by name.
func containers(spec *corev1.PodSpec, volumes map[string]*corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	hostUsers := spec.HostUsers == nil || *spec.HostUsers
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	for i := range spec.Containers {
		at := path.Child("containers").Index(i)
		errs = append(errs, container(&spec.Containers[i], hostUsers, names, volumes, at)...)
		errs = append(errs, resizePolicy(spec.Containers[i].ResizePolicy, spec.RestartPolicy, at.Child("resizePolicy"))...)
		errs = append(errs, lifecycle(spec.Containers[i].Lifecycle, spec.TerminationGracePeriodSeconds, at.Child("lifecycle"))...)
		errs = append(errs, probes(&spec.Containers[i], at)...)
	}
	for i := range spec.InitContainers {
		c, at := &spec.InitContainers[i], path.Child("initContainers").Index(i)
		errs = append(errs, container(c, hostUsers, names, volumes, at)...)
		errs = append(errs, resizePolicy(c.ResizePolicy, spec.RestartPolicy, at.Child("resizePolicy"))...)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			errs = append(errs, lifecycle(c.Lifecycle, spec.TerminationGracePeriodSeconds, at.Child("lifecycle"))...)
			errs = append(errs, probes(c, at)...)
			continue
		}
		if c.Lifecycle != nil {
			errs = append(errs, field.Forbidden(at.Child("lifecycle"), "may not be set for init containers without restartPolicy=Always"))
		}
		for _, probe := range []struct {
			name string
			set  bool
		}{{"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil}} {
			if probe.set {
				errs = append(errs, field.Forbidden(at.Child(probe.name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		errs = append(errs, container(&c, hostUsers, names, volumes, path.Child("ephemeralContainers").Index(i))...)
	}
	return errs
}

func container(c *corev1.Container, hostUsers bool, names sets.Set[string], volumes map[string]*corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		for _, msg := range validation.IsDNS1123Label(c.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), c.Name, msg))
		}
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
		}
		names.Insert(c.Name)
	}
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	errs = append(errs, oneOf(c.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, oneOf(c.ImagePullPolicy, path.Child("imagePullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, ports(c.Ports, path.Child("ports"))...)
	errs = append(errs, env(c.Env, volumes, path.Child("env"))...)
	errs = append(errs, envFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, mounts(c, volumes, path)...)
	errs = append(errs, Resources(&c.Resources, path.Child("resources"))...)
	errs = append(errs, security(c.SecurityContext, hostUsers, path.Child("securityContext"))...)
	return append(errs, restarts(c, path)...)
}

func ports(list []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, port := range list {
		at := path.Index(i)
		if port.Name != "" {
			if msgs := validation.IsValidPortName(port.Name); len(msgs) > 0 {
				for _, msg := range msgs {
					errs = append(errs, field.Invalid(at.Child("name"), port.Name, msg))
				}
			} else if names.Has(port.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			for _, msg := range validation.IsValidPortNum(int(port.ContainerPort)) {
				errs = append(errs, field.Invalid(at.Child("containerPort"), port.ContainerPort, msg))
			}
		}
		if port.HostPort != 0 {
			for _, msg := range validation.IsValidPortNum(int(port.HostPort)) {
				errs = append(errs, field.Invalid(at.Child("hostPort"), port.HostPort, msg))
			}
		}
		if port.HostIP != "" {
			errs = append(errs, validation.IsValidIP(at.Child("hostIP"), port.HostIP)...)
		}
		errs = append(errs, oneOf(port.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
	return errs
}

func hostPortText(protocol corev1.Protocol, ip string, port int32) string {
	return fmt.Sprintf("%s/%s/%d", protocol, ip, port)
}
