package doctor

import (
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
)

// checkAPIServices reports APIs whose servers do not answer.
func checkAPIServices(l list, f *Facts) {
	if f.APIServicesErr != nil {
		l.add(Warn, "all", f.APIServicesErr.Error(), "Use a kubeconfig that may list apiservices.")
		return
	}
	served, lacking := 0, 0
	for _, one := range f.APIServices {
		if one.Spec.Service == nil {
			continue
		}
		condition := helper.GetAPIServiceConditionByType(one, apiregistrationv1.Available)
		if condition != nil && condition.Status == apiregistrationv1.ConditionTrue {
			served++
			continue
		}
		lacking++
		said := "nobody has asked its server yet"
		if condition != nil {
			said = condition.Reason + ": " + condition.Message
		}
		l.add(Warn, one.Name, said, "See docs/operate/runbooks/GarboardAPIServiceUnavailable.md.")
	}
	if lacking == 0 {
		l.ok("all", "the servers of all %d answer", served)
	}
}
