package pod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers checks the containers of a pod with these volumes, by name.
func containers(spec *corev1.PodSpec, volumes map[string]*corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	for i := range spec.Containers {
		at := path.Child("containers").Index(i)
		errs = append(errs, container(&spec.Containers[i], names, volumes, at)...)
		errs = append(errs, lifecycle(spec.Containers[i].Lifecycle, at.Child("lifecycle"))...)
		errs = append(errs, probes(&spec.Containers[i], at)...)
	}
	for i := range spec.InitContainers {
		c, at := &spec.InitContainers[i], path.Child("initContainers").Index(i)
		errs = append(errs, container(c, names, volumes, at)...)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			errs = append(errs, lifecycle(c.Lifecycle, at.Child("lifecycle"))...)
			errs = append(errs, probes(c, at)...)
			continue
		}
		if c.Lifecycle != nil {
			errs = append(errs, field.Forbidden(at.Child("lifecycle"), "may not be set for init containers without restartPolicy=Always"))
		}
		for name, probe := range map[string]*corev1.Probe{"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe} {
			if probe != nil {
				errs = append(errs, field.Forbidden(at.Child(name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		errs = append(errs, container(&c, names, volumes, path.Child("ephemeralContainers").Index(i))...)
	}
	return errs
}

func container(c *corev1.Container, names sets.Set[string], volumes map[string]*corev1.Volume, path *field.Path) field.ErrorList {
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
	switch {
	case c.Image == "":
		errs = append(errs, field.Required(path.Child("image"), ""))
	case strings.TrimSpace(c.Image) != c.Image:
		errs = append(errs, field.Invalid(path.Child("image"), c.Image, "must not have leading or trailing whitespace"))
	}
	errs = append(errs, oneOf(c.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, oneOf(c.ImagePullPolicy, path.Child("imagePullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, ports(c.Ports, path.Child("ports"))...)
	errs = append(errs, env(c.Env, path.Child("env"))...)
	errs = append(errs, envFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, mounts(c, volumes, path)...)
	errs = append(errs, Resources(&c.Resources, path.Child("resources"))...)
	errs = append(errs, security(c.SecurityContext, path.Child("securityContext"))...)
	if c.RestartPolicy != nil {
		errs = append(errs, oneOf(*c.RestartPolicy, path.Child("restartPolicy"),
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	}
	return errs
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
		errs = append(errs, oneOf(port.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	}
	return errs
}

func hostPortText(protocol corev1.Protocol, ip string, port int32) string {
	return fmt.Sprintf("%s/%s/%d", protocol, ip, port)
}

func env(list []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range list {
		at := path.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			for _, msg := range validation.IsRelaxedEnvVarName(v.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), v.Name, msg))
			}
		}
		errs = append(errs, envSource(v, at.Child("valueFrom"))...)
	}
	return errs
}

func envSource(v corev1.EnvVar, path *field.Path) field.ErrorList {
	from := v.ValueFrom
	if from == nil {
		return nil
	}
	var errs field.ErrorList
	count := 0
	if from.FieldRef != nil {
		count++
		errs = append(errs, fieldRef(from.FieldRef, envFields(), path.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		count++
		errs = append(errs, resourceRef(from.ResourceFieldRef, false, path.Child("resourceFieldRef"))...)
	}
	if from.ConfigMapKeyRef != nil {
		count++
		errs = append(errs, keyRef(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, path.Child("configMapKeyRef"))...)
	}
	if from.SecretKeyRef != nil {
		count++
		errs = append(errs, keyRef(from.SecretKeyRef.Name, from.SecretKeyRef.Key, path.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		count++
		if from.FileKeyRef.Key == "" {
			errs = append(errs, field.Required(path.Child("fileKeyRef", "key"), ""))
		}
	}
	switch {
	case count == 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case count > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func keyRef(name, key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Child("key"), key, msg))
	}
	return errs
}

func envFrom(list []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, source := range list {
		at := path.Index(i)
		if source.Prefix != "" {
			for _, msg := range validation.IsRelaxedEnvVarName(source.Prefix) {
				errs = append(errs, field.Invalid(at.Child("prefix"), source.Prefix, msg))
			}
		}
		count := 0
		if source.ConfigMapRef != nil {
			count++
			if source.ConfigMapRef.Name == "" {
				errs = append(errs, field.Required(at.Child("configMapRef", "name"), ""))
			}
		}
		if source.SecretRef != nil {
			count++
			if source.SecretRef.Name == "" {
				errs = append(errs, field.Required(at.Child("secretRef", "name"), ""))
			}
		}
		switch count {
		case 0:
			errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case 2:
			errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}
