package doctor

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// TestAPIServices checks that only APIs whose servers do not answer are findings.
func TestAPIServices(t *testing.T) {
	api := func(service bool, conditions ...apiregistrationv1.APIServiceCondition) func(*Facts) {
		return func(f *Facts) {
			one := &apiregistrationv1.APIService{
				ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"}, Status: apiregistrationv1.APIServiceStatus{Conditions: conditions},
			}
			if service {
				one.Spec.Service = &apiregistrationv1.ServiceReference{Name: "a"}
			}
			f.APIServices = []*apiregistrationv1.APIService{one}
		}
	}
	condition := func(status apiregistrationv1.ConditionStatus) apiregistrationv1.APIServiceCondition {
		return apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available, Status: status, Reason: "FailedDiscoveryCheck", Message: "refused"}
	}
	for _, tc := range []struct {
		name               string
		facts              func(*Facts)
		what, says, advice string
	}{
		{"none", func(*Facts) {}, "", "", ""},
		{"well", api(true, condition(apiregistrationv1.ConditionTrue)), "", "", ""},
		{"its own", api(false), "", "", ""},
		{"no answer", api(true, condition(apiregistrationv1.ConditionFalse)), "v1.example.com", "FailedDiscoveryCheck: refused", "GarboardAPIServiceUnavailable"},
		{"new", api(true), "v1.example.com", "nobody has asked", "GarboardAPIServiceUnavailable"},
		{"no right", func(f *Facts) { f.APIServicesErr = errors.New("forbidden") }, "all", "forbidden", "may list apiservices"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := healthy()
			tc.facts(f)
			wantWarning(t, f, "Aggregated APIs", tc.what, tc.says, tc.advice)
		})
	}
}
