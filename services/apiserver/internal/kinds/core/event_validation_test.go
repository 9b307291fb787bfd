package core

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/coordination"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestObserved(t *testing.T) {
	event := &corev1.Event{ObjectMeta: meta(), InvolvedObject: corev1.ObjectReference{Namespace: "other"}, Series: &corev1.EventSeries{Count: 1}}
	errortest.Contain(t, validateEvent(event), "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace", "eventTime: Required value", "should be at least 2")
	event.EventTime, event.InvolvedObject.Namespace, event.Count = metav1.NewMicroTime(time.Unix(1, 0)), "", 1
	event.Namespace = "work"
	errortest.Contain(t, validateEvent(event), "involvedObject.namespace: Invalid value: \"\": does not match event.namespace", "count: Invalid value: \"\": needs to be unset",
		"reportingController: Required value", "reportingInstance: Required value", "action: Required value", "reason: Required value", "should be at least 2")
	errortest.Contain(t, validateEventUpdate(&corev1.Event{ObjectMeta: meta(), Message: "a"}, &corev1.Event{ObjectMeta: meta()}), `message: Invalid value: "a": field is immutable`)
	good := &corev1.Event{
		ObjectMeta: meta(), InvolvedObject: corev1.ObjectReference{Namespace: "default"}, EventTime: metav1.NewMicroTime(time.Unix(1, 0)),
		ReportingController: "c", ReportingInstance: "i", Action: "a", Reason: "r", Type: "Normal",
	}
	errortest.Contain(t, validateEvent(good))
	errortest.Contain(t, validateCoreEvent(&corev1.Event{ObjectMeta: meta()}))
	errortest.Contain(t, validateCoreEvent(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "work"}}), "does not match event.namespace")
	errortest.Contain(t, coordination.ValidateLease(&coordinationv1.Lease{ObjectMeta: meta(), Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(0)), LeaseTransitions: new(int32(-1))}}),
		"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0", "spec.leaseTransitions: Invalid value: -1")
}
