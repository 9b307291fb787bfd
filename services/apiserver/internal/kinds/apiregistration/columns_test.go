package apiregistration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	service := []string{"Name", "Service", "Available", "Age"}
	available := func(status apiregistrationv1.ConditionStatus, reason string) apiregistrationv1.APIServiceStatus {
		return apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{
			{Type: "Other", Status: "True"}, {Type: apiregistrationv1.Available, Status: status, Reason: reason},
		}}
	}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"local API", APIService(), &apiregistrationv1.APIService{ObjectMeta: meta, Status: available("True", "Local")},
			service, []any{"one", "Local", "True", "5m"},
		},
		{
			"remote API", APIService(), &apiregistrationv1.APIService{
				ObjectMeta: meta, Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "s"}}, Status: available("False", "MissingEndpoints"),
			},
			service, []any{"one", "ns/s", "False (MissingEndpoints)", "5m"},
		},
		{"new API", APIService(), &apiregistrationv1.APIService{ObjectMeta: meta}, service, []any{"one", "Local", "Unknown", "5m"}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
