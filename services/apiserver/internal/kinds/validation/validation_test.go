package validation

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", Namespace: "default"} }

func TestSecretTypes(t *testing.T) {
	for kind, tc := range map[corev1.SecretType]struct {
		data map[string][]byte
		want []string
	}{
		corev1.SecretTypeOpaque:           {map[string][]byte{"a/b": nil}, []string{"data[a/b]: Invalid value"}},
		corev1.SecretTypeBasicAuth:        {nil, []string{"data[username]: Required value", "data[password]: Required value"}},
		corev1.SecretTypeSSHAuth:          {nil, []string{"data[ssh-privatekey]: Required value"}},
		corev1.SecretTypeDockerConfigJson: {map[string][]byte{".dockerconfigjson": []byte("{")}, []string{"data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\""}},
		corev1.SecretTypeTLS:              {map[string][]byte{"tls.crt": nil, "tls.key": nil}, nil},
		"example.com/own":                 {map[string][]byte{"a": nil}, nil},
	} {
		errortest.Contain(t, Secret(&corev1.Secret{ObjectMeta: meta(), Type: kind, Data: tc.data}), tc.want...)
	}
}

func TestNamespaceStatus(t *testing.T) {
	n := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}
	errortest.Contain(t, NamespaceStatus(n, n), "may only be 'Active' if `deletionTimestamp` is empty")
	n.DeletionTimestamp = new(metav1.Now())
	errortest.Contain(t, NamespaceStatus(n, n))
	n.Status.Phase = corev1.NamespaceActive
	errortest.Contain(t, NamespaceStatus(n, n), "may only be 'Terminating' if `deletionTimestamp` is not empty")
}

func TestNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{
		PodCIDRs: []string{"10.0.0.0/24"}, ProviderID: "a",
		Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoSchedule"}, {Key: "", Effect: "Never"}},
	}}
	errortest.Contain(t, Node(n), "taints must be unique by key and effect pair", `metadata.taints[2].effect: Unsupported value: "Never"`, "metadata.taints[2].key: Invalid value")
	changed := n.DeepCopy()
	changed.Spec.PodCIDRs, changed.Spec.ProviderID = nil, "b"
	errortest.Contain(t, NodeUpdate(changed, n), "node updates may not change podCIDR except from \"\" to valid", "node updates may not change providerID except from \"\" to valid")
}

func TestObserved(t *testing.T) {
	event := &corev1.Event{ObjectMeta: meta(), InvolvedObject: corev1.ObjectReference{Namespace: "other"}, Series: &corev1.EventSeries{Count: 1}}
	errortest.Contain(t, Event(event), "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace", "eventTime: Required value", "should be at least 2")
	event.EventTime, event.InvolvedObject.Namespace, event.Count = metav1.NewMicroTime(time.Unix(1, 0)), "", 1
	event.Namespace = "work"
	errortest.Contain(t, Event(event), "involvedObject.namespace: Invalid value: \"\": does not match event.namespace", "count: Invalid value: \"\": needs to be unset",
		"reportingController: Required value", "reportingInstance: Required value", "action: Required value", "reason: Required value", "should be at least 2")
	errortest.Contain(t, EventUpdate(&corev1.Event{ObjectMeta: meta(), Message: "a"}, &corev1.Event{ObjectMeta: meta()}), `message: Invalid value: "a": field is immutable`)
	good := &corev1.Event{
		ObjectMeta: meta(), InvolvedObject: corev1.ObjectReference{Namespace: "default"}, EventTime: metav1.NewMicroTime(time.Unix(1, 0)),
		ReportingController: "c", ReportingInstance: "i", Action: "a", Reason: "r", Type: "Normal",
	}
	errortest.Contain(t, Event(good))
	errortest.Contain(t, CoreEvent(&corev1.Event{ObjectMeta: meta()}))
	errortest.Contain(t, CoreEvent(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "work"}}), "does not match event.namespace")
	errortest.Contain(t, Lease(&coordinationv1.Lease{ObjectMeta: meta(), Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(0)), LeaseTransitions: new(int32(-1))}}),
		"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0", "spec.leaseTransitions: Invalid value: -1")
}
