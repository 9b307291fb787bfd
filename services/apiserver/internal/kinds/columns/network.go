package columns

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func ingresses() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Class", "The name of the IngressClass resource that should be used for additional configuration"),
		text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
		text("Address", "Address is a list containing ingress points for the load-balancer"),
		text("Ports", "Ports of TLS configurations that open"),
		age(),
	}, func(i *networkingv1.Ingress, now time.Time) []any {
		class := none
		if i.Spec.IngressClassName != nil {
			class = *i.Spec.IngressClassName
		}
		ports := "80"
		if len(i.Spec.TLS) > 0 {
			ports = "80, 443"
		}
		return []any{i.Name, class, ingressHosts(i.Spec.Rules), ingressAddresses(i), ports, ageOf(i, now)}
	})
}

func ingressHosts(rules []networkingv1.IngressRule) string {
	var hosts []string
	for _, rule := range rules {
		if len(hosts) == shown {
			return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-shown)
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

func ingressClasses() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Controller", "Controller that is responsible for handling this class"),
		text("Parameters", "A reference to a resource with additional parameters"),
		age(),
	}, func(c *networkingv1.IngressClass, now time.Time) []any {
		parameters := none
		if p := c.Spec.Parameters; p != nil {
			parameters = p.Kind
			if p.APIGroup != nil {
				parameters += "." + *p.APIGroup
			}
			parameters += "/" + p.Name
		}
		return []any{c.Name, c.Spec.Controller, parameters, ageOf(c, now)}
	})
}

func networkPolicies() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]), age(),
	}, func(p *networkingv1.NetworkPolicy, now time.Time) []any {
		return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), ageOf(p, now)}
	})
}

func serviceCIDRs() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]), age(),
	}, func(c *networkingv1.ServiceCIDR, now time.Time) []any {
		return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), ageOf(c, now)}
	})
}

// ipAddresses has no age: Kubernetes returns a cell for it but no column, so it is never shown.
func ipAddresses() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
	}, func(a *networkingv1.IPAddress, _ time.Time) []any {
		parent := none
		if ref := a.Spec.ParentRef; ref != nil {
			of := schema.GroupResource{Group: ref.Group, Resource: ref.Resource}
			parent = strings.ToLower(of.String())
			if ref.Namespace != "" {
				parent += "/" + ref.Namespace
			}
			parent += "/" + ref.Name
		}
		return []any{a.Name, parent}
	})
}

func endpoints() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]), age(),
	}, func(e *corev1.Endpoints, now time.Time) []any {
		return []any{e.Name, endpointList(e.Subsets), ageOf(e, now)}
	})
}

// endpointList names the first few ready addresses.
func endpointList(subsets []corev1.EndpointSubset) string {
	if len(subsets) == 0 {
		return none
	}
	var all []string
	for _, subset := range subsets {
		for _, address := range subset.Addresses {
			if len(subset.Ports) == 0 {
				all = append(all, address.IP)
			}
		}
		for _, port := range subset.Ports {
			for _, address := range subset.Addresses {
				all = append(all, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	if len(all) > shown {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:shown], ","), len(all)-shown)
	}
	return strings.Join(all, ",")
}
