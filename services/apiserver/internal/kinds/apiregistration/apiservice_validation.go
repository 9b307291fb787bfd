package apiregistration

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Kubernetes' limits for the priorities of groups and versions.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

// ValidateAPIService validates an API service.
func ValidateAPIService(s *apiregistrationv1.APIService) field.ErrorList {
	name := s.Spec.Version + "." + s.Spec.Group
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, false, func(given string, _ bool) []string {
		if msgs := content.IsPathSegmentName(given); len(msgs) > 0 {
			return msgs
		}
		if given != name {
			return []string{fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", name)}
		}
		return nil
	}, field.NewPath("metadata"))
	spec, at := &s.Spec, field.NewPath("spec")
	if spec.Group == "" && spec.Version != "v1" {
		errs = append(errs, field.Required(at.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	if spec.Group != "" {
		for _, msg := range validation.IsDNS1123Subdomain(spec.Group) {
			errs = append(errs, field.Invalid(at.Child("group"), spec.Group, msg))
		}
	}
	for _, msg := range validation.IsDNS1035Label(spec.Version) {
		errs = append(errs, field.Invalid(at.Child("version"), spec.Version, msg))
	}
	if spec.GroupPriorityMinimum <= 0 || spec.GroupPriorityMinimum > maxGroupPriority {
		errs = append(errs, field.Invalid(at.Child("groupPriorityMinimum"), spec.GroupPriorityMinimum, "must be positive and less than 20000"))
	}
	if spec.VersionPriority <= 0 || spec.VersionPriority > maxVersionPriority {
		errs = append(errs, field.Invalid(at.Child("versionPriority"), spec.VersionPriority, "must be positive and less than 1000"))
	}
	if spec.Service == nil {
		return append(errs, localService(spec, at)...)
	}
	return append(errs, remoteService(spec, at)...)
}

func localService(spec *apiregistrationv1.APIServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(at.Child("caBundle"), fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle"))
	}
	if spec.InsecureSkipTLSVerify {
		errs = append(errs, field.Invalid(at.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
	}
	return errs
}

func remoteService(spec *apiregistrationv1.APIServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("service", "namespace"), ""))
	}
	if spec.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("service", "name"), ""))
	}
	port := int32(0)
	if spec.Service.Port != nil {
		port = *spec.Service.Port
	}
	if msgs := validation.IsValidPortNum(int(port)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at.Child("service", "port"), port, "port is not valid: "+strings.Join(msgs, ", ")))
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(at.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

// validateAPIServiceUpdate validates an update of an API service.
func validateAPIServiceUpdate(s, old *apiregistrationv1.APIService) field.ErrorList {
	return append(apivalidation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), ValidateAPIService(s)...)
}

// validateAPIServiceStatus validates an update of an API service's status.
func validateAPIServiceStatus(s, old *apiregistrationv1.APIService) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	known := []apiregistrationv1.ConditionStatus{apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown}
	for i, condition := range s.Status.Conditions {
		switch condition.Status {
		case apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown:
		default:
			errs = append(errs, field.NotSupported(field.NewPath("status", "conditions").Index(i).Child("status"), condition.Status, known))
		}
	}
	return errs
}
