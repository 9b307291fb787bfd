package networking

import (
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// Ingress defines the kind Ingress.
func Ingress() *kinds.Definition {
	specStatus := kinds.SpecStatusOf(func(i *networkingv1.Ingress) (*networkingv1.IngressSpec, *networkingv1.IngressStatus) {
		return &i.Spec, &i.Status
	})
	return kinds.Of[*networkingv1.Ingress]{
		Columns:  ingressColumns(),
		Level:    kinds.Full,
		Create:   specStatus.Begin,
		Validate: validateIngress,
		Update:   kinds.ChangeOf[*networkingv1.Ingress]{Prepare: specStatus.KeepStatus, Validate: validateIngressUpdate},
		Subresources: map[string]kinds.ChangeOf[*networkingv1.Ingress]{"status": {
			Prepare: specStatus.KeepSpec, Validate: validateIngressStatus, Warnings: ingressStatusWarnings,
		}},
		CreationWarnings: func(i *networkingv1.Ingress) []string {
			if _, ok := i.Annotations[annotationIngressClass]; !ok || i.Spec.IngressClassName != nil {
				return nil
			}
			return []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}
		},
	}.Definition()
}

// ingressStatusWarnings warns about addresses of a load balancer that are not in canonical form.
func ingressStatusWarnings(i, _ *networkingv1.Ingress) []string {
	var found []string
	for n, point := range i.Status.LoadBalancer.Ingress {
		if point.IP != "" {
			found = append(found, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(n), point.IP)...)
		}
	}
	return found
}

func ingressColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Class", "The name of the IngressClass resource that should be used for additional configuration"),
		columns.Text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
		columns.Text("Address", "Address is a list containing ingress points for the load-balancer"),
		columns.Text("Ports", "Ports of TLS configurations that open"),
		columns.Age(),
	}, func(i *networkingv1.Ingress, now time.Time) []any {
		class := columns.None
		if i.Spec.IngressClassName != nil {
			class = *i.Spec.IngressClassName
		}
		ports := "80"
		if len(i.Spec.TLS) > 0 {
			ports = "80, 443"
		}
		return []any{i.Name, class, ingressHosts(i.Spec.Rules), ingressAddresses(i), ports, columns.AgeOf(i, now)}
	})
}

func ingressHosts(rules []networkingv1.IngressRule) string {
	var hosts []string
	for _, rule := range rules {
		if len(hosts) == columns.Shown {
			return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-columns.Shown)
		}
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	if len(hosts) == 0 {
		return "*"
	}
	return strings.Join(hosts, ",")
}

func ingressAddresses(i *networkingv1.Ingress) string {
	var all []string
	for _, point := range i.Status.LoadBalancer.Ingress {
		if point.IP != "" {
			all = append(all, point.IP)
		} else if point.Hostname != "" {
			all = append(all, point.Hostname)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// annotationIngressClass named the class of an ingress before there was a field for it.
const annotationIngressClass = "kubernetes.io/ingress.class"

// object checks the group, the kind and the name of a reference to any object.
func object(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, values.Invalid(path.Child("apiGroup"), *group, validation.IsDNS1123Subdomain(*group))...)
	}
	errs = append(errs, segment(path.Child("kind"), kind)...)
	return append(errs, segment(path.Child("name"), name)...)
}

// segment checks a required value that must be usable as a path segment of a URL.
func segment(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return values.Invalid(path, value, content.IsPathSegmentName(value))
}
