package core

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// validateCoreEvent validates an event of the core group, whose rules are lenient.
func validateCoreEvent(e *corev1.Event) field.ErrorList { return anyEvent(e, "reportingComponent") }

// anyEvent makes the checks that both groups share. Only events with an eventTime need to tell who
// reports what.
func anyEvent(e *corev1.Event, controller string) field.ErrorList {
	if e.EventTime.IsZero() {
		if e.InvolvedObject.Namespace != e.Namespace && (e.InvolvedObject.Namespace != "" || e.Namespace != clusterScopeEvent) {
			return otherNamespace(e)
		}
		return nil
	}
	var errs field.ErrorList
	if e.InvolvedObject.Namespace == "" && e.Namespace != clusterScopeEvent && e.Namespace != metav1.NamespaceSystem {
		errs = otherNamespace(e)
	}
	if e.ReportingController == "" {
		errs = append(errs, field.Required(field.NewPath(controller), ""))
	}
	for _, msg := range validation.IsQualifiedName(e.ReportingController) {
		errs = append(errs, field.Invalid(field.NewPath(controller), e.ReportingController, msg))
	}
	errs = append(errs, filled(e.ReportingInstance, maxReporting, field.NewPath("reportingInstance"))...)
	errs = append(errs, filled(e.Action, maxAction, field.NewPath("action"))...)
	errs = append(errs, filled(e.Reason, maxReason, field.NewPath("reason"))...)
	if e.Message != "" {
		errs = append(errs, filled(e.Message, maxNote, field.NewPath("message"))...)
	}
	return errs
}

func otherNamespace(e *corev1.Event) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), e.InvolvedObject.Namespace, "does not match event.namespace")}
}

func filled(value string, limit int, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(value) > limit {
		return field.ErrorList{field.Invalid(path, "", fmt.Sprintf("can have at most %d characters", limit))}
	}
	return nil
}

// validateEvent validates a new event of events.k8s.io in the form of the core group: Kubernetes' errors
// name the fields of that.
func validateEvent(e *corev1.Event) field.ErrorList {
	errs := anyEvent(e, "reportingController")
	errs = append(errs, apivalidation.ValidateObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	errs = append(errs, series(e.Series)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	for _, old := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !e.FirstTimestamp.IsZero()}, {"lastTimestamp", !e.LastTimestamp.IsZero()}, {"count", e.Count != 0},
		{"source", e.Source != corev1.EventSource{}},
	} {
		if old.set {
			errs = append(errs, field.Invalid(field.NewPath(old.name), "", "needs to be unset"))
		}
	}
	return errs
}

func series(s *corev1.EventSeries) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if s.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// validateEventUpdate validates an update of such an event: only its series may change.
func validateEventUpdate(e, old *corev1.Event) field.ErrorList {
	errs := anyEvent(e, "reportingController")
	if !reflect.DeepEqual(e.Series, old.Series) {
		errs = append(errs, series(e.Series)...)
	}
	for _, f := range []struct {
		name        string
		now, before any
	}{
		{"involvedObject", e.InvolvedObject, old.InvolvedObject}, {"reason", e.Reason, old.Reason}, {"message", e.Message, old.Message},
		{"source", e.Source, old.Source}, {"firstTimestamp", e.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", e.LastTimestamp, old.LastTimestamp}, {"count", e.Count, old.Count}, {"type", e.Type, old.Type},
		{"action", e.Action, old.Action}, {"related", e.Related, old.Related}, {"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(f.now, f.before, field.NewPath(f.name))...)
	}
	if !e.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		errs = append(errs, field.Invalid(field.NewPath("eventTime"), e.EventTime, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}
