package apiservices

import (
	"testing"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/apiregistration"
)

func TestOf(t *testing.T) {
	table := scheme.New()
	services, err := Of(table)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	last := int32(20000)
	for _, s := range services {
		found[s.Name] = true
		if errs := apiregistration.ValidateAPIService(s); len(errs) > 0 {
			t.Errorf("%s is not valid: %v", s.Name, errs.ToAggregate())
		}
		if s.Spec.GroupPriorityMinimum > last {
			t.Errorf("%s has a higher priority than the service before it in discovery", s.Name)
		}
		last = s.Spec.GroupPriorityMinimum
	}
	for _, name := range []string{"v1.", "v1.apps", "v2.autoscaling", "v1.resource.k8s.io"} {
		if !found[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if found["v1.apiregistration.k8s.io"] || len(found) != len(services) {
		t.Errorf("got too many services: %v", found)
	}
}
