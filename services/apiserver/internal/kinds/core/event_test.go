package core

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func newEvent() *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "work", ResourceVersion: "1"}, EventTime: metav1.NewMicroTime(time.Unix(1, 0).UTC()),
		Regarding:           corev1.ObjectReference{Kind: "Pod", Namespace: "work", Name: "p", UID: "u", APIVersion: "v1", ResourceVersion: "2", FieldPath: "f"},
		ReportingController: "example.com/c", ReportingInstance: "i", Action: "a", Reason: "r", Type: "Normal", Note: "n",
	}
}

// TestEvents checks new events in the newer form at their bounds. The errors name the older fields.
func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, tc := range []struct {
		name   string
		change func(*eventsv1.Event)
		want   []string
	}{
		{"the longest texts, the least series", func(e *eventsv1.Event) {
			e.ReportingInstance, e.Action, e.Reason, e.Note = long[1:], long[1:], long[1:], strings.Repeat("x", 1024)
			e.Series, e.Type = &eventsv1.EventSeries{Count: 2, LastObservedTime: e.EventTime}, "Warning"
		}, nil},
		{"longer ones", func(e *eventsv1.Event) {
			e.ReportingInstance, e.Action, e.Reason, e.Note = long, long, long, strings.Repeat("x", 1025)
		}, []string{
			`reportingInstance: Invalid value: "": can have at most 128 characters`, `action: Invalid value: "": can have at most 128 characters`,
			`reason: Invalid value: "": can have at most 128 characters`, `message: Invalid value: "": can have at most 1024 characters`,
		}},
		{"a series of one", func(e *eventsv1.Event) { e.Series = &eventsv1.EventSeries{Count: 1} }, []string{
			`series.count: Invalid value: "": should be at least 2`, "series.lastObservedTime: Required value",
		}},
		{"older fields", func(e *eventsv1.Event) {
			e.DeprecatedFirstTimestamp, e.DeprecatedLastTimestamp = metav1.Unix(1, 0), metav1.Unix(1, 0)
			e.DeprecatedCount, e.DeprecatedSource = 1, corev1.EventSource{Host: "h"}
		}, []string{
			`firstTimestamp: Invalid value: "": needs to be unset`, `lastTimestamp: Invalid value: "": needs to be unset`,
			`count: Invalid value: "": needs to be unset`, `source: Invalid value: "": needs to be unset`,
		}},
		{"an unknown type", func(e *eventsv1.Event) { e.Type = "Error" }, []string{`type: Invalid value: "": has invalid value: Error`}},
		{"something without a namespace", func(e *eventsv1.Event) { e.Regarding.Namespace = "" }, []string{
			`involvedObject.namespace: Invalid value: "": does not match event.namespace`,
		}},
		{"the same among the system's", func(e *eventsv1.Event) { e.Regarding.Namespace, e.Namespace = "", "kube-system" }, nil},
		{"no name", func(e *eventsv1.Event) { e.Name = "" }, []string{"metadata.name: Required value: name or generateName is required"}},
		{"something elsewhere", func(e *eventsv1.Event) { e.Regarding.Namespace = "other" }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEvent()
			tc.change(e)
			errortest.Exactly(t, Event().Validate(e), tc.want...)
		})
	}
}

// TestEventUpdates checks that only the series of an event changes, and that parts of a microsecond do
// not count.
func TestEventUpdates(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*eventsv1.Event)
		want   []string
	}{
		{"a series", func(e *eventsv1.Event) { e.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: e.EventTime} }, nil},
		{"a bad series", func(e *eventsv1.Event) { e.Series = &eventsv1.EventSeries{Count: 3} }, []string{"series.lastObservedTime: Required value"}},
		{"texts", func(e *eventsv1.Event) {
			e.Reason, e.Note, e.Type, e.Action, e.ReportingController, e.ReportingInstance = "1", "2", "3", "4", "5", "6"
		}, []string{
			`reason: Invalid value: "1": field is immutable`, `message: Invalid value: "2": field is immutable`, `type: Invalid value: "3": field is immutable`,
			`action: Invalid value: "4": field is immutable`, `reportingController: Invalid value: "5": field is immutable`, `reportingInstance: Invalid value: "6": field is immutable`,
		}},
		{"a count", func(e *eventsv1.Event) { e.DeprecatedCount = 2 }, []string{"count: Invalid value: 2: field is immutable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEvent()
			tc.change(e)
			errortest.Exactly(t, Event().Update.Validate(e, newEvent()), tc.want...)
		})
	}
	later := newEvent()
	later.EventTime = metav1.NewMicroTime(later.EventTime.Add(999 * time.Nanosecond))
	errortest.Exactly(t, Event().Update.Validate(later, newEvent()))
	later.EventTime = metav1.NewMicroTime(later.EventTime.Add(time.Nanosecond))
	errortest.Contain(t, Event().Update.Validate(later, newEvent()), "eventTime: Invalid value: ", ": field is immutable")
}

// TestCoreEvents checks the rules of the older form, which depend on whether an event has a time.
func TestCoreEvents(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		namespace, regarding string
		timed                bool
		want                 []string
	}{
		{"the same namespace", "work", "work", false, nil},
		{"no namespace, in the default one", "default", "", false, nil},
		{"no namespace, in another", "kube-system", "", false, []string{`involvedObject.namespace: Invalid value: "": does not match event.namespace`}},
		{"another namespace", "default", "work", false, []string{`involvedObject.namespace: Invalid value: "work": does not match event.namespace`}},
		{"no reporter", "work", "work", true, []string{
			"reportingComponent: Required value", `reportingComponent: Invalid value: "": name part must be non-empty`,
			`reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an ` +
				"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
			"reportingInstance: Required value", "action: Required value", "reason: Required value",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: tc.namespace}, InvolvedObject: corev1.ObjectReference{Namespace: tc.regarding}}
			if tc.timed {
				e.EventTime = newEvent().EventTime
			}
			errortest.Exactly(t, CoreEvent().Validate(e), tc.want...)
			errortest.Exactly(t, CoreEvent().Update.Validate(e, e), tc.want...)
		})
	}
}

// TestEventForms checks that both forms hold the same, and the fields by which both are selected.
func TestEventForms(t *testing.T) {
	e := newEvent()
	e.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: e.EventTime}
	e.Related, e.DeprecatedSource = &corev1.ObjectReference{Name: "r"}, corev1.EventSource{Component: "s", Host: "h"}
	e.DeprecatedFirstTimestamp, e.DeprecatedLastTimestamp, e.DeprecatedCount = metav1.Unix(1, 0), metav1.Unix(2, 0), 3
	e.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("Event"))
	stored := kindtest.Convert[*corev1.Event](t, Event().ToStored, e)
	if diff := cmp.Diff(e, kindtest.Convert[*eventsv1.Event](t, Event().FromStored, stored)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := fields.Set{"reason": "r", "type": "Normal"}
	for name, value := range map[string]string{
		"kind": "Pod", "namespace": "work", "name": "p", "uid": "u", "apiVersion": "v1", "resourceVersion": "2", "fieldPath": "f",
	} {
		want["regarding."+name] = value
	}
	want["reportingController"] = "example.com/c"
	if diff := cmp.Diff(want, Event().Fields(e)); diff != "" {
		t.Errorf("newer form (-want +got):\n%s", diff)
	}
	older := fields.Set{"reportingComponent": "example.com/c", "source": "s"}
	for name, value := range want {
		if name != "reportingController" {
			older[strings.Replace(name, "regarding.", "involvedObject.", 1)] = value
		}
	}
	if diff := cmp.Diff(older, CoreEvent().Fields(stored)); diff != "" {
		t.Errorf("older form (-want +got):\n%s", diff)
	}
	stored.Source.Component = ""
	if got := CoreEvent().Fields(stored)["source"]; got != "example.com/c" {
		t.Errorf("got the source %q, want the controller", got)
	}
}
