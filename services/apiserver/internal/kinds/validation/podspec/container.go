package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// surroundings are the parts of a pod that the checks of its containers depend on.
type surroundings struct {
	spec    *corev1.PodSpec
	was     *corev1.PodSpec // before an update
	volumes map[string]*corev1.Volume
	claims  sets.Set[string]
}

// containers checks the containers of a pod.
func containers(in surroundings, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	spec, names := in.spec, sets.New[string]()
	kept := slices.ContainsFunc(in.was.InitContainers, func(c corev1.Container) bool { return len(onlySidecarResizes(&c, path)) > 0 })
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	for i := range spec.Containers {
		c, at := &spec.Containers[i], path.Child("containers").Index(i)
		errs = append(errs, container(c, in, at)...)
		errs = append(errs, unique(c.Name, names, at)...)
		errs = append(errs, lifecycle(c.Lifecycle, spec, at.Child("lifecycle"))...)
		errs = append(errs, probes(c, at)...)
		errs = append(errs, restarts(c, at)...)
	}
	for i := range spec.InitContainers {
		c, at := &spec.InitContainers[i], path.Child("initContainers").Index(i)
		errs = append(errs, container(c, in, at)...)
		errs = append(errs, initRestarts(c, at)...)
		errs = append(errs, unique(c.Name, names, at)...)
		if !kept {
			errs = append(errs, onlySidecarResizes(c, at)...)
		}
		if sidecar(c) {
			errs = append(errs, lifecycle(c.Lifecycle, spec, at.Child("lifecycle"))...)
			errs = append(errs, probes(c, at)...)
			continue
		}
		errs = append(errs, onlySidecar(c, at)...)
	}
	targets := names.Clone()
	for i := range spec.EphemeralContainers {
		c, at := &spec.EphemeralContainers[i], path.Child("ephemeralContainers").Index(i)
		common := corev1.Container(c.EphemeralContainerCommon)
		errs = append(errs, container(&common, in, at)...)
		errs = append(errs, trimmedImage(&common, at)...)
		errs = append(errs, unique(c.Name, names, at)...)
		errs = append(errs, ephemeral(c, targets, at)...)
	}
	return errs
}

func unique(name string, names sets.Set[string], path *field.Path) field.ErrorList {
	if names.Has(name) {
		return field.ErrorList{field.Duplicate(path.Child("name"), name)}
	}
	names.Insert(name)
	return nil
}

// onlySidecar rejects what only those init containers may have that run beside the others.
func onlySidecar(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, part := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
	} {
		if part.set {
			errs = append(errs, field.Forbidden(path.Child(part.name), "may not be set for init containers without restartPolicy=Always"))
		}
	}
	return errs
}

// sidecar reports whether an init container runs beside the others.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// onlySidecarResizes rejects a restart for a resize of an init container that ends before the others start.
func onlySidecarResizes(c *corev1.Container, path *field.Path) field.ErrorList {
	if sidecar(c) {
		return nil
	}
	var errs field.ErrorList
	for i, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			errs = append(errs, field.Invalid(path.Child("resizePolicy").Index(i).Child("restartPolicy"), p.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers"))
		}
	}
	return errs
}

// container checks what all types of containers have.
func container(c *corev1.Container, in surroundings, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, values.Invalid(path.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
	}
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	errs = append(errs, values.OneOf(c.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, values.OneOf(c.ImagePullPolicy, path.Child("imagePullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, ports(c.Ports, path.Child("ports"))...)
	errs = append(errs, env(c.Env, path.Child("env"))...)
	errs = append(errs, envFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, mounts(c, in.volumes, path)...)
	errs = append(errs, resources.Requirements(&c.Resources, resources.ContainerName, path.Child("resources"))...)
	errs = append(errs, claimed(c.Resources.Claims, in.claims, path.Child("resources", "claims"))...)
	errs = append(errs, resizePolicy(c.ResizePolicy, in.spec.RestartPolicy, path.Child("resizePolicy"))...)
	hostUsers := in.spec.HostUsers == nil || *in.spec.HostUsers
	return append(errs, security(c.SecurityContext, hostUsers, path.Child("securityContext"))...)
}

// trimmedImage rejects spaces around the image of a container; those of templates may have some.
func trimmedImage(c *corev1.Container, path *field.Path) field.ErrorList {
	if strings.TrimSpace(c.Image) == c.Image {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("image"), c.Image, "must not have leading or trailing whitespace")}
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
			} else {
				names.Insert(port.Name)
			}
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
		errs = append(errs, values.OneOf(port.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
	return errs
}

func hostPortText(protocol corev1.Protocol, ip string, port int32) string {
	return fmt.Sprintf("%s/%s/%d", protocol, ip, port)
}
