package podspec

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

const (
	maxProfileName = 4095 // bytes, as Linux limits paths
	maxSysctl      = 253
	sysctlForm     = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
)

// sharedProcesses rejects two ways at once in which the containers of a pod see each other's processes.
func sharedProcesses(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.HostPID && spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		return field.ErrorList{field.Invalid(path.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled")}
	}
	return nil
}

func podSecurity(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	s := spec.SecurityContext
	if s == nil {
		return nil
	}
	errs := userID(s.RunAsUser, path.Child("runAsUser"))
	errs = append(errs, GroupID(s.RunAsGroup, path.Child("runAsGroup"))...)
	errs = append(errs, GroupID(s.FSGroup, path.Child("fsGroup"))...)
	for i := range s.SupplementalGroups {
		errs = append(errs, GroupID(&s.SupplementalGroups[i], path.Child("supplementalGroups").Index(i))...)
	}
	if p := s.FSGroupChangePolicy; p != nil {
		errs = append(errs, values.Known(*p, path.Child("fsGroupChangePolicy"), corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	}
	if p := s.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, values.Known(*p, path.Child("supplementalGroupsPolicy"), corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	if p := s.SELinuxChangePolicy; p != nil {
		errs = append(errs, values.Known(*p, path.Child("seLinuxChangePolicy"), corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)...)
	}
	errs = append(errs, seccomp(s.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, appArmor(s.AppArmorProfile, path.Child("appArmorProfile"))...)
	return append(errs, sysctls(spec, path.Child("sysctls"))...)
}

// sysctls checks a pod's kernel settings. The settings of a namespace that the pod shares with its
// node are the node's.
func sysctls(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	form := regexp.MustCompile("^" + sysctlForm + "$")
	seen := sets.New[string]()
	for i, sysctl := range spec.SecurityContext.Sysctls {
		at := path.Index(i).Child("name")
		switch {
		case sysctl.Name == "":
			errs = append(errs, field.Required(at, ""))
		case len(sysctl.Name) > maxSysctl || !form.MatchString(sysctl.Name):
			errs = append(errs, field.Invalid(at, sysctl.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, form)))
		case seen.Has(sysctl.Name):
			errs = append(errs, field.Duplicate(at, sysctl.Name))
		}
		seen.Insert(sysctl.Name)
		dotted := dottedSysctl(sysctl.Name)
		if spec.HostNetwork && strings.HasPrefix(dotted, "net.") {
			errs = append(errs, field.Invalid(at, sysctl.Name, "may not be specified when 'hostNetwork' is true"))
		}
		if spec.HostIPC && (dotted == "kernel.sem" || strings.HasPrefix(dotted, "kernel.shm") || strings.HasPrefix(dotted, "kernel.msg") || strings.HasPrefix(dotted, "fs.mqueue.")) {
			errs = append(errs, field.Invalid(at, sysctl.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
	return errs
}

// dottedSysctl converts a sysctl name with slashes as separators to the form with dots.
func dottedSysctl(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}

func security(s *corev1.SecurityContext, hostUsers bool, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := userID(s.RunAsUser, path.Child("runAsUser"))
	errs = append(errs, GroupID(s.RunAsGroup, path.Child("runAsGroup"))...)
	errs = append(errs, seccomp(s.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, appArmor(s.AppArmorProfile, path.Child("appArmorProfile"))...)
	if s.ProcMount != nil {
		errs = append(errs, values.Known(*s.ProcMount, path.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if hostUsers && *s.ProcMount == corev1.UnmaskedProcMount {
			errs = append(errs, field.Invalid(path.Child("procMount"), s.ProcMount, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		return errs
	}
	if s.Privileged != nil && *s.Privileged {
		errs = append(errs, field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if s.Capabilities != nil {
		for _, capability := range s.Capabilities.Add {
			if capability == "CAP_SYS_ADMIN" {
				errs = append(errs, field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
			}
		}
	}
	return errs
}

func userID(id *int64, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return values.Invalid(path, *id, validation.IsValidUserID(*id))
}

func GroupID(id *int64, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return values.Invalid(path, *id, validation.IsValidGroupID(*id))
}

func seccomp(p *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	if p.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "type is required when seccompProfile is set"))
	} else {
		errs = append(errs, values.Known(p.Type, path.Child("type"), corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)...)
	}
	switch {
	case p.Type != corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(path.Child("localhostProfile"), p, "can only be set when seccomp type is Localhost"))
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile == nil:
		errs = append(errs, field.Required(path.Child("localhostProfile"), "must be set when seccomp type is Localhost"))
	case p.Type == corev1.SeccompProfileTypeLocalhost:
		errs = append(errs, volumesource.Descending(*p.LocalhostProfile, path.Child("localhostProfile"))...)
	}
	return errs
}

func appArmor(p *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	at := path.Child("localhostProfile")
	switch p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		return appArmorFile(p.LocalhostProfile, at)
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			return field.ErrorList{field.Invalid(at, p.LocalhostProfile, "can only be set when AppArmor type is Localhost")}
		}
		return nil
	case "":
		return field.ErrorList{field.Required(path.Child("type"), "type is required when appArmorProfile is set")}
	}
	return values.Known(p.Type, path.Child("type"), corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
}

func appArmorFile(name *string, path *field.Path) field.ErrorList {
	if name == nil || *name == "" {
		return field.ErrorList{field.Required(path, "must be set when AppArmor type is Localhost")}
	}
	var errs field.ErrorList
	if strings.TrimSpace(*name) != *name {
		errs = append(errs, field.Invalid(path, *name, "must not be padded with whitespace"))
	}
	if len(*name) > maxProfileName {
		errs = append(errs, field.TooLong(path, *name, maxProfileName))
	}
	return errs
}
