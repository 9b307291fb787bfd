package columns

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shown is the number of ports and addresses in an endpoint slice's row.
const shown = 3

func leases() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), age(),
	}, func(l *coordinationv1.Lease, now time.Time) []any {
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		return []any{l.Name, holder, ageOf(l, now)}
	})
}

func endpointSlices() layout {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(), text("AddressType", doc["addressType"]), text("Ports", doc["ports"]), text("Endpoints", doc["endpoints"]), age(),
	}, func(s *discoveryv1.EndpointSlice, now time.Time) []any {
		var ports, addresses []string
		for _, p := range s.Ports {
			switch {
			case p.Port != nil:
				ports = append(ports, strconv.Itoa(int(*p.Port)))
			case p.Name != nil && *p.Name != "":
				ports = append(ports, *p.Name)
			default:
				ports = append(ports, "*")
			}
		}
		for _, e := range s.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
		return []any{s.Name, string(s.AddressType), firstFew(ports), firstFew(addresses), ageOf(s, now)}
	})
}

func firstFew(all []string) string {
	switch {
	case len(all) == 0:
		return unset
	case len(all) <= shown:
		return strings.Join(all, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:shown], ","), len(all)-shown)
}

func eventColumns() []metav1.TableColumnDefinition {
	doc := corev1.Event{}.SwaggerDoc()
	last := text("Last Seen", doc["lastTimestamp"])
	n := wide(name())
	n.Format = ""
	return []metav1.TableColumnDefinition{
		last, text("Type", doc["type"]), text("Reason", doc["reason"]), text("Object", doc["involvedObject"]),
		wide(text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])),
		wide(text("Source", doc["source"])),
		text("Message", doc["message"]),
		wide(text("First Seen", doc["firstTimestamp"])),
		wide(text("Count", doc["count"])),
		n,
	}
}

func events() layout { return of(eventColumns(), eventCells) }

// newEvents prints events.k8s.io events like the core group's.
func newEvents() layout {
	return of(eventColumns(), func(e *eventsv1.Event, now time.Time) []any {
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
	first := since(e.FirstTimestamp.Time, now)
	if e.FirstTimestamp.IsZero() {
		first = since(e.EventTime.Time, now)
	}
	last := since(e.LastTimestamp.Time, now)
	if e.LastTimestamp.IsZero() {
		last = first
	}
	count := e.Count
	if e.Series != nil {
		last, count = since(e.Series.LastObservedTime.Time, now), e.Series.Count
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
