package storagemigration

import (
	"strings"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateStorageVersionMigration validates a migration. Its resource need not be served.
func validateStorageVersionMigration(m migration) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&m.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	of, at := m.Spec.Resource, field.NewPath("spec", "resource")
	if of.Resource == "" {
		errs = append(errs, field.Required(at.Child("resource"), "resource is required to be set"))
	} else if faults := validation.IsDNS1035Label(of.Resource); len(faults) > 0 {
		errs = append(errs, field.Invalid(at.Child("resource"), of.Resource, strings.Join(faults, ",")))
	}
	if of.Group != "" {
		if faults := validation.IsDNS1123Subdomain(of.Group); len(faults) > 0 {
			errs = append(errs, field.Invalid(at.Child("group"), of.Group, strings.Join(faults, ",")))
		}
	}
	return errs
}

// validateStorageVersionMigrationUpdate validates an update of a migration, whose spec is immutable.
func validateStorageVersionMigrationUpdate(m, old migration) field.ErrorList {
	errs := append(validateStorageVersionMigration(m), apivalidation.ValidateObjectMetaUpdate(&m.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	return append(errs, apivalidation.ValidateImmutableField(m.Spec, old.Spec, field.NewPath("spec"))...)
}

// validateStorageVersionMigrationStatus validates an update of a migration's status. The revision at which it
// began, and its end, are final.
func validateStorageVersionMigrationStatus(m, old migration) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&m.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	at := field.NewPath("status")
	version, conditions := m.Status.ResourceVersion, m.Status.Conditions
	if version != "" {
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			errs = append(errs, field.Invalid(at.Child("resourceVersion"), version, err.Error()))
		}
	}
	errs = append(errs, metav1validation.ValidateConditions(conditions, at.Child("conditions"))...)
	if old.Status.ResourceVersion != "" && old.Status.ResourceVersion != version {
		errs = append(errs, field.Invalid(at.Child("resourceVersion"), version, "field is immutable"))
	}
	if has(m, storagemigrationv1.MigrationSucceeded) && has(m, storagemigrationv1.MigrationFailed) {
		errs = append(errs, field.Invalid(at.Child("conditions"), conditions, "Both success and failed conditions cannot be true at the same time"))
	}
	for _, final := range []struct {
		condition storagemigrationv1.MigrationConditionType
		name      string
	}{{storagemigrationv1.MigrationSucceeded, "Success"}, {storagemigrationv1.MigrationFailed, "Failed"}} {
		if has(old, final.condition) && !has(m, final.condition) {
			errs = append(errs, field.Invalid(at.Child("conditions"), conditions, final.name+" condition cannot be set to false once it is true"))
		}
	}
	return errs
}

func has(m migration, condition storagemigrationv1.MigrationConditionType) bool {
	found := meta.FindStatusCondition(m.Status.Conditions, string(condition))
	return found != nil && found.Status == metav1.ConditionTrue
}
