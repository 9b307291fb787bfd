package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/windows"
)

// system checks what depends on the operating system that a pod declares.
func system(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := append(hostProcesses(spec, path), ownUsers(spec, path)...)
	if spec.SecurityContext != nil {
		errs = append(errs, windows.Options(spec.SecurityContext.WindowsOptions, path.Child("securityContext", "windowsOptions"))...)
	}
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		if c.SecurityContext != nil {
			errs = append(errs, windows.Options(c.SecurityContext.WindowsOptions, at.Child("securityContext", "windowsOptions"))...)
		}
	})
	if spec.OS == nil {
		return errs
	}
	switch spec.OS.Name {
	case corev1.Linux:
		return append(errs, linuxOnly(spec, path)...)
	case corev1.Windows:
		return append(errs, windowsOnly(spec, path)...)
	case "":
		return append(errs, field.Required(path.Child("os", "name"), ""))
	}
	return append(errs, values.Known(spec.OS.Name, path.Child("os"), corev1.Linux, corev1.Windows)...)
}

// ownUsers rejects what a pod with users of its own cannot use.
func ownUsers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.HostUsers == nil || *spec.HostUsers {
		return nil
	}
	var errs field.ErrorList
	refuse := func(set bool, at *field.Path) {
		if set {
			errs = append(errs, field.Forbidden(at, "when `hostUsers` is false"))
		}
	}
	refuse(spec.HostNetwork, path.Child("hostNetwork"))
	refuse(spec.HostPID, path.Child("HostPID"))
	refuse(spec.HostIPC, path.Child("HostIPC"))
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		refuse(len(c.VolumeDevices) > 0, at.Child("volumeDevices"))
	})
	return errs
}

func linuxOnly(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(path.Child("securityContext", "windowsOptions"), "windows options cannot be set for a linux pod"))
	}
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			errs = append(errs, field.Forbidden(at.Child("securityContext", "windowsOptions"), "windows options cannot be set for a linux pod"))
		}
	})
	return errs
}

// windowsOnly rejects fields that only Linux supports.
func windowsOnly(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(set bool, at *field.Path) {
		if set {
			errs = append(errs, field.Forbidden(at, "cannot be set for a windows pod"))
		}
	}
	refuse(spec.HostUsers != nil, path.Child("hostUsers"))
	refuse(spec.HostPID, path.Child("hostPID"))
	refuse(spec.HostIPC, path.Child("hostIPC"))
	refuse(spec.ShareProcessNamespace != nil, path.Child("shareProcessNamespace"))
	if s := spec.SecurityContext; s != nil {
		at := path.Child("securityContext")
		refuse(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
		refuse(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
		refuse(s.SELinuxChangePolicy != nil, at.Child("seLinuxChangePolicy"))
		refuse(s.SeccompProfile != nil, at.Child("seccompProfile"))
		refuse(s.FSGroup != nil, at.Child("fsGroup"))
		refuse(s.FSGroupChangePolicy != nil, at.Child("fsGroupChangePolicy"))
		refuse(len(s.Sysctls) > 0, at.Child("sysctls"))
		refuse(s.RunAsUser != nil, at.Child("runAsUser"))
		refuse(s.RunAsGroup != nil, at.Child("runAsGroup"))
		refuse(s.SupplementalGroups != nil, at.Child("supplementalGroups"))
		refuse(s.SupplementalGroupsPolicy != nil, at.Child("supplementalGroupsPolicy"))
	}
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		s := c.SecurityContext
		if s == nil {
			return
		}
		at = at.Child("securityContext")
		refuse(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
		refuse(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
		refuse(s.SeccompProfile != nil, at.Child("seccompProfile"))
		refuse(s.Capabilities != nil, at.Child("capabilities"))
		refuse(s.ReadOnlyRootFilesystem != nil, at.Child("readOnlyRootFilesystem"))
		refuse(s.Privileged != nil, at.Child("privileged"))
		refuse(s.AllowPrivilegeEscalation != nil, at.Child("allowPrivilegeEscalation"))
		refuse(s.ProcMount != nil, at.Child("procMount"))
		refuse(s.RunAsUser != nil, at.Child("runAsUser"))
		refuse(s.RunAsGroup != nil, at.Child("runAsGroup"))
	})
	return errs
}

// hostProcesses checks that either all containers are processes of the Windows host or none is.
func hostProcesses(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var whole *bool
	if s := spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		whole = s.WindowsOptions.HostProcess
	}
	all, ofHost := 0, 0
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		all++
		own := whole
		if s := c.SecurityContext; s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			own = s.WindowsOptions.HostProcess
			if whole != nil && *whole != *own {
				errs = append(errs, field.Invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *own,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole)))
			}
		}
		if own != nil && *own {
			ofHost++
		}
	})
	if ofHost == 0 {
		return errs
	}
	if ofHost != all {
		errs = append(errs, field.Invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !spec.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), spec.HostNetwork, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}
