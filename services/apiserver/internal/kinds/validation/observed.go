package validation

import (
	"fmt"
	"reflect"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubernetes' limits for events.
const (
	maxReason         = 128
	maxAction         = 128
	maxNote           = 1024
	maxReporting      = 128
	clusterScopeEvent = "default"
)

// CoreEvent validates an event of the core group, whose rules are lenient.
func CoreEvent(e *corev1.Event) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, eventNamespace(e.InvolvedObject.Namespace, e.Namespace, field.NewPath("involvedObject", "namespace"))...)
}

// eventNamespace checks that an event is in its object's namespace. Events of cluster-scoped
// objects are in "default" (or, from old clients, kube-system).
func eventNamespace(involved, namespace string, path *field.Path) field.ErrorList {
	switch {
	case involved == namespace:
		return nil
	case involved == "" && (namespace == clusterScopeEvent || namespace == "kube-system"):
		return nil
	}
	return field.ErrorList{field.Invalid(path, involved, "does not match event.namespace")}
}

// Event validates an event of events.k8s.io.
func Event(e *eventsv1.Event) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, eventNamespace(e.Regarding.Namespace, e.Namespace, field.NewPath("regarding", "namespace"))...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	controller := field.NewPath("reportingController")
	if e.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	for _, msg := range validation.IsQualifiedName(e.ReportingController) {
		errs = append(errs, field.Invalid(controller, e.ReportingController, msg))
	}
	errs = append(errs, filled(e.ReportingInstance, maxReporting, field.NewPath("reportingInstance"))...)
	errs = append(errs, filled(e.Action, maxAction, field.NewPath("action"))...)
	errs = append(errs, filled(e.Reason, maxReason, field.NewPath("reason"))...)
	if len(e.Note) > maxNote {
		errs = append(errs, field.TooLong(field.NewPath("message"), "", maxNote))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	if s := e.Series; s != nil {
		if s.Count < 2 {
			errs = append(errs, field.Invalid(field.NewPath("series", "count"), "", "should be at least 2"))
		}
		if s.LastObservedTime.IsZero() {
			errs = append(errs, field.Required(field.NewPath("series", "lastObservedTime"), ""))
		}
	}
	return errs
}

func filled(value string, limit int, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(value) > limit {
		return field.ErrorList{field.TooLong(path, "", limit)}
	}
	return nil
}

// EventUpdate validates an update of an event: only its series may change.
func EventUpdate(e, old *eventsv1.Event) field.ErrorList {
	errs := Event(e)
	now, before := e.DeepCopy(), old
	for _, f := range []struct {
		name        string
		now, before any
	}{
		{"regarding", now.Regarding, before.Regarding}, {"reason", now.Reason, before.Reason}, {"note", now.Note, before.Note},
		{"type", now.Type, before.Type}, {"action", now.Action, before.Action}, {"related", now.Related, before.Related},
		{"reportingController", now.ReportingController, before.ReportingController},
		{"reportingInstance", now.ReportingInstance, before.ReportingInstance},
	} {
		if !reflect.DeepEqual(f.now, f.before) {
			errs = append(errs, field.Invalid(field.NewPath(f.name), f.now, apivalidation.FieldImmutableErrorMsg))
		}
	}
	if !now.EventTime.Truncate(time.Microsecond).Equal(before.EventTime.Truncate(time.Microsecond)) {
		errs = append(errs, field.Invalid(field.NewPath("eventTime"), now.EventTime, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

// Lease validates a lease.
func Lease(l *coordinationv1.Lease) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&l.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	if s := l.Spec.LeaseDurationSeconds; s != nil && *s <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *s, "must be greater than 0"))
	}
	if n := l.Spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == "" && l.Spec.Strategy != nil {
		errs = append(errs, field.Required(path.Child("holderIdentity"), "must not be empty when strategy is set"))
	}
	if l.Spec.PreferredHolder != nil && *l.Spec.PreferredHolder != "" && l.Spec.Strategy == nil {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified if strategy is defined"))
	}
	return errs
}
