package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func podSecurity(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	s := spec.SecurityContext
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if spec.HostPID && spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), *spec.ShareProcessNamespace, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	errs = append(errs, userID(s.RunAsUser, path.Child("runAsUser"))...)
	errs = append(errs, groupID(s.RunAsGroup, path.Child("runAsGroup"))...)
	errs = append(errs, groupID(s.FSGroup, path.Child("fsGroup"))...)
	for i := range s.SupplementalGroups {
		errs = append(errs, groupID(&s.SupplementalGroups[i], path.Child("supplementalGroups").Index(i))...)
	}
	if p := s.FSGroupChangePolicy; p != nil {
		errs = append(errs, oneOf(*p, path.Child("fsGroupChangePolicy"), corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)...)
	}
	if p := s.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOf(*p, path.Child("supplementalGroupsPolicy"), corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	errs = append(errs, seccomp(s.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, appArmor(s.AppArmorProfile, path.Child("appArmorProfile"))...)
	seen := sets.New[string]()
	for i, sysctl := range s.Sysctls {
		at := path.Child("sysctls").Index(i)
		if sysctl.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else if seen.Has(sysctl.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), sysctl.Name))
		}
		seen.Insert(sysctl.Name)
	}
	return errs
}

func security(s *corev1.SecurityContext, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := userID(s.RunAsUser, path.Child("runAsUser"))
	errs = append(errs, groupID(s.RunAsGroup, path.Child("runAsGroup"))...)
	errs = append(errs, seccomp(s.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, appArmor(s.AppArmorProfile, path.Child("appArmorProfile"))...)
	if s.ProcMount != nil {
		errs = append(errs, oneOf(*s.ProcMount, path.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
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
	return invalid(path, *id, validation.IsValidUserID(*id))
}

func groupID(id *int64, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return invalid(path, *id, validation.IsValidGroupID(*id))
}

func invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func seccomp(p *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(p.Type, path.Child("type"), corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	switch {
	case p.Type != corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(path.Child("localhostProfile"), *p.LocalhostProfile, "can only be set when seccomp type is Localhost"))
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile == nil:
		errs = append(errs, field.Required(path.Child("localhostProfile"), "must be set when seccomp type is Localhost"))
	case p.Type == corev1.SeccompProfileTypeLocalhost:
		errs = append(errs, descending(*p.LocalhostProfile, path.Child("localhostProfile"))...)
	}
	return errs
}

func appArmor(p *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(p.Type, path.Child("type"), corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	switch {
	case p.Type != corev1.AppArmorProfileTypeLocalhost && p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(path.Child("localhostProfile"), *p.LocalhostProfile, "can only be set when AppArmor type is Localhost"))
	case p.Type == corev1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || *p.LocalhostProfile == ""):
		errs = append(errs, field.Required(path.Child("localhostProfile"), "must be set when AppArmor type is Localhost"))
	}
	return errs
}
