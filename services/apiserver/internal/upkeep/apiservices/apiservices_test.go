package apiservices

import (
	"fmt"
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
	found := map[string]string{}
	last := int32(20000)
	for _, s := range services {
		found[s.Name] = fmt.Sprintf("%d/%d", s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority)
		if errs := apiregistration.ValidateAPIService(s); len(errs) > 0 {
			t.Errorf("%s is not valid: %v", s.Name, errs.ToAggregate())
		}
		if s.Spec.GroupPriorityMinimum > last {
			t.Errorf("%s has a higher priority than the service before it in discovery", s.Name)
		}
		last = s.Spec.GroupPriorityMinimum
	}
	for name, want := range map[string]string{
		"v1.": "18000/1", "v1.apps": "17800/15", "v1.autoscaling": "17500/15", "v2.autoscaling": "17500/30", "v1.discovery.k8s.io": "16200/15",
		"v1.resource.k8s.io": "16200/21", "v1.flowcontrol.apiserver.k8s.io": "16100/21", "v1.storagemigration.k8s.io": "15800/15",
		"v1beta1.metrics.k8s.io": "",
	} {
		if got := found[name]; got != want {
			t.Errorf("%s: got the priorities %q, want %s", name, got, want)
		}
	}
	if found["v1.apiregistration.k8s.io"] != "" || len(found) != len(services) {
		t.Errorf("got too many services: %v", found)
	}
}
