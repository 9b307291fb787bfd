package core

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

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

// CoreEvent defines the Event of the core group.
func CoreEvent() *kinds.Definition {
	return kinds.Of[*corev1.Event]{
		Columns:             coreEventColumns(),
		Level:               kinds.Full,
		Validate:            validateCoreEvent,
		Update:              kinds.ChangeOf[*corev1.Event]{Validate: func(e, _ *corev1.Event) field.ErrorList { return validateCoreEvent(e) }},
		AllowCreateOnUpdate: true,
		FieldLabels:         eventFieldLabels(),
		Fields:              coreEventFields,
	}.Definition()
}

// Event defines events.k8s.io, which presents the core group's events in a newer form.
func Event() *kinds.Definition {
	s := kinds.Of[*eventsv1.Event]{
		Columns:  newEventColumns(),
		Level:    kinds.Full,
		Validate: func(e *eventsv1.Event) field.ErrorList { return validateEvent(eventToCore(e)) },
		Update: kinds.ChangeOf[*eventsv1.Event]{Validate: func(e, old *eventsv1.Event) field.ErrorList {
			return validateEventUpdate(eventToCore(e), eventToCore(old))
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
	}.Definition()
	s.ToStored = kinds.EachConverted(func(e *eventsv1.Event) scheme.Object { return eventToCore(e) })
	s.FromStored = kinds.EachConverted(func(e *corev1.Event) scheme.Object { return eventFromCore(e) })
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

func eventColumns() []metav1.TableColumnDefinition {
	doc := corev1.Event{}.SwaggerDoc()
	last := columns.Text("Last Seen", doc["lastTimestamp"])
	n := columns.Wide(columns.Name())
	n.Format = ""
	return []metav1.TableColumnDefinition{
		last, columns.Text("Type", doc["type"]), columns.Text("Reason", doc["reason"]), columns.Text("Object", doc["involvedObject"]),
		columns.Wide(columns.Text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])),
		columns.Wide(columns.Text("Source", doc["source"])),
		columns.Text("Message", doc["message"]),
		columns.Wide(columns.Text("First Seen", doc["firstTimestamp"])),
		columns.Wide(columns.Text("Count", doc["count"])),
		n,
	}
}

func coreEventColumns() *columns.Layout { return columns.Of(eventColumns(), eventCells) }

// newEventColumns prints events.k8s.io events like the core group's.
func newEventColumns() *columns.Layout {
	return columns.Of(eventColumns(), func(e *eventsv1.Event, now time.Time) []any {
		old := &corev1.Event{
			ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Reason: e.Reason, Message: e.Note, Type: e.Type,
			EventTime: e.EventTime, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
			Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp,
			Count: e.DeprecatedCount,
		}
		if e.Series != nil {
			old.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
		}
		return eventCells(old, now)
	})
}

func eventCells(e *corev1.Event, now time.Time) []any {
	first := columns.Since(e.FirstTimestamp.Time, now)
	if e.FirstTimestamp.IsZero() {
		first = columns.Since(e.EventTime.Time, now)
	}
	last := columns.Since(e.LastTimestamp.Time, now)
	if e.LastTimestamp.IsZero() {
		last = first
	}
	count := e.Count
	if e.Series != nil {
		last, count = columns.Since(e.Series.LastObservedTime.Time, now), e.Series.Count
	} else if count == 0 {
		count = 1
	}
	target := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		target += "/" + e.InvolvedObject.Name
	}
	return []any{
		last, e.Type, e.Reason, target, e.InvolvedObject.FieldPath, eventSource(e), strings.TrimSpace(e.Message),
		first, int64(count), e.Name,
	}
}

func eventSource(e *corev1.Event) string {
	component, host := e.Source.Component, e.Source.Host
	if component == "" {
		component = e.ReportingController
	}
	if host == "" {
		host = e.ReportingInstance
	}
	if host == "" {
		return component
	}
	return component + ", " + host
}
