package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func sameRole(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), ref, apivalidation.FieldImmutableErrorMsg)}
}

func roleRef(ref rbacv1.RoleRef, kinds []string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("roleRef")
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	known := false
	for _, kind := range kinds {
		known = known || kind == ref.Kind
	}
	if !known {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		return append(errs, field.Required(path.Child("name"), ""))
	}
	for _, msg := range name(ref.Name, false) {
		errs = append(errs, field.Invalid(path.Child("name"), ref.Name, msg))
	}
	return errs
}

func subjects(subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i := range subjects {
		errs = append(errs, subject(&subjects[i], namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

// subject checks a subject. In a namespaced binding, a service account without a namespace belongs
// to the binding's.
func subject(s *rbacv1.Subject, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	group := rbacv1.GroupName
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			for _, msg := range apivalidation.ValidateServiceAccountName(s.Name, false) {
				errs = append(errs, field.Invalid(path.Child("name"), s.Name, msg))
			}
		}
		if s.Namespace == "" && !namespaced {
			errs = append(errs, field.Required(path.Child("namespace"), ""))
		}
		group = ""
	case rbacv1.UserKind, rbacv1.GroupKind:
	default:
		return append(errs, field.NotSupported(path.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	if s.APIGroup != group {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{group}))
	}
	return errs
}
