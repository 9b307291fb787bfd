package strategy

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation"
)

func lease() *kinds.Definition {
	return of[*coordinationv1.Lease]{
		Level:               kinds.Full,
		Validate:            validation.Lease,
		Update:              change[*coordinationv1.Lease]{Validate: func(l, _ *coordinationv1.Lease) field.ErrorList { return validation.Lease(l) }},
		AllowCreateOnUpdate: true,
		ConditionalUpdate:   true,
	}.strategy()
}

func eventFieldLabels() []string {
	return []string{
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
		"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
		"reason", "reportingComponent", "source", "type",
	}
}

func coreEventFields(e *corev1.Event) fields.Set {
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	return fields.Set{
		"involvedObject.kind": e.InvolvedObject.Kind, "involvedObject.namespace": e.InvolvedObject.Namespace,
		"involvedObject.name": e.InvolvedObject.Name, "involvedObject.uid": string(e.InvolvedObject.UID),
		"involvedObject.apiVersion": e.InvolvedObject.APIVersion, "involvedObject.resourceVersion": e.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath": e.InvolvedObject.FieldPath, "reason": e.Reason,
		"reportingComponent": e.ReportingController, "source": source, "type": e.Type,
	}
}

func coreEvent() *kinds.Definition {
	return of[*corev1.Event]{
		Level:               kinds.Full,
		Validate:            validation.CoreEvent,
		Update:              change[*corev1.Event]{Validate: func(e, _ *corev1.Event) field.ErrorList { return validation.CoreEvent(e) }},
		AllowCreateOnUpdate: true,
		FieldLabels:         eventFieldLabels(),
		Fields:              coreEventFields,
	}.strategy()
}

// event is the strategy of events.k8s.io, which presents the core group's events in a newer form.
func event() *kinds.Definition {
	s := of[*eventsv1.Event]{
		Level:    kinds.Full,
		Validate: func(e *eventsv1.Event) field.ErrorList { return validation.Event(eventToCore(e)) },
		Update: change[*eventsv1.Event]{Validate: func(e, old *eventsv1.Event) field.ErrorList {
			return validation.EventUpdate(eventToCore(e), eventToCore(old))
		}},
		AllowCreateOnUpdate: true,
		FieldLabels: []string{
			"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
			"regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type",
		},
		Fields: func(e *eventsv1.Event) fields.Set {
			return fields.Set{
				"regarding.kind": e.Regarding.Kind, "regarding.namespace": e.Regarding.Namespace, "regarding.name": e.Regarding.Name,
				"regarding.uid": string(e.Regarding.UID), "regarding.apiVersion": e.Regarding.APIVersion,
				"regarding.resourceVersion": e.Regarding.ResourceVersion, "regarding.fieldPath": e.Regarding.FieldPath,
				"reason": e.Reason, "reportingController": e.ReportingController, "type": e.Type,
			}
		},
	}.strategy()
	s.ToStored = func(obj scheme.Object) scheme.Object { return eventToCore(obj.(*eventsv1.Event)) }
	s.FromStored = func(obj scheme.Object) scheme.Object { return eventFromCore(obj.(*corev1.Event)) }
	return s
}

// eventToCore converts an event to the core group's form. The result shares what e points to.
func eventToCore(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Related: e.Related, Reason: e.Reason, Message: e.Note,
		Type: e.Type, EventTime: e.EventTime, Action: e.Action, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp,
		LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	return out
}

// eventFromCore converts an event to the form of events.k8s.io. The result shares what e points to.
func eventFromCore(e *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		ObjectMeta: e.ObjectMeta, Regarding: e.InvolvedObject, Related: e.Related, Reason: e.Reason, Note: e.Message,
		Type: e.Type, EventTime: e.EventTime, Action: e.Action, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, DeprecatedSource: e.Source, DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
	}
	if e.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	out.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("Event"))
	return out
}
