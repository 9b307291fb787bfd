package service

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateEndpoints validates endpoints.
func validateEndpoints(e *corev1.Endpoints) field.ErrorList { return endpoints(e, nil) }

// validateEndpointsUpdate validates an update of endpoints.
func validateEndpointsUpdate(e, old *corev1.Endpoints) field.ErrorList {
	var had []string
	for _, subset := range old.Subsets {
		for _, addresses := range [][]corev1.EndpointAddress{subset.Addresses, subset.NotReadyAddresses} {
			for _, address := range addresses {
				had = append(had, address.IP)
			}
		}
	}
	return endpoints(e, had)
}

func endpoints(e *corev1.Endpoints, had []string) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	for i := range e.Subsets {
		subset, at := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for n := range subset.Addresses {
			errs = append(errs, endpointAddress(&subset.Addresses[n], at.Child("addresses").Index(n), had)...)
		}
		for n := range subset.NotReadyAddresses {
			errs = append(errs, endpointAddress(&subset.NotReadyAddresses[n], at.Child("notReadyAddresses").Index(n), had)...)
		}
		for n := range subset.Ports {
			errs = append(errs, endpointPort(&subset.Ports[n], len(subset.Ports) > 1, at.Child("ports").Index(n))...)
		}
	}
	return errs
}

func endpointAddress(a *corev1.EndpointAddress, path *field.Path, had []string) field.ErrorList {
	errs := network.Ip(path.Child("ip"), a.IP, had)
	if a.Hostname != "" {
		errs = append(errs, values.Invalid(path.Child("hostname"), a.Hostname, validation.IsDNS1123Label(a.Hostname))...)
	}
	errs = append(errs, network.NodeName(path.Child("nodeName"), a.NodeName)...)
	return append(errs, network.OrdinaryIP(path.Child("ip"), a.IP)...)
}

func endpointPort(p *corev1.EndpointPort, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		errs = append(errs, values.Invalid(path.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
	} else if named {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, values.Invalid(path.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
	errs = append(errs, network.OneOf(path.Child("protocol"), p.Protocol, network.Protocols()...)...)
	return append(errs, network.AppProtocol(path.Child("appProtocol"), p.AppProtocol)...)
}
