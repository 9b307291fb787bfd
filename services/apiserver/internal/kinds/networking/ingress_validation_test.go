package networking

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func newIngress(change func(*networkingv1.Ingress)) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: meta("web"), Spec: networkingv1.IngressSpec{
		IngressClassName: new("nginx"), TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.example.com", "*.example.com"}, SecretName: "tls"}},
		Rules: []networkingv1.IngressRule{{Host: "a.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/a", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}},
		}}}},
	}}
	if change != nil {
		change(i)
	}
	return i
}

func TestIngress(t *testing.T) {
	type ing = *networkingv1.Ingress
	first := func(i ing) *networkingv1.HTTPIngressPath { return &i.Spec.Rules[0].HTTP.Paths[0] }
	const rule, path = "spec.rules[0]", "spec.rules[0].http.paths[0]"
	resource := func(group *string, kind, name string) func(ing) {
		return func(i ing) {
			first(i).Backend = networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{APIGroup: group, Kind: kind, Name: name}}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(ing)
		want   []string
	}{
		{"whole", nil, nil},
		{"nothing", func(i ing) { i.Spec = networkingv1.IngressSpec{} }, []string{"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"}},
		{"default backend alone", func(i ing) {
			i.Spec = networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "1a", Port: networkingv1.ServiceBackendPort{Name: "http"}}}}
		}, nil},
		{"empty default backend", func(i ing) { i.Spec.DefaultBackend = &networkingv1.IngressBackend{} }, []string{`spec.defaultBackend: Invalid value: "": resource or service backend is required`}},
		{"rule without paths", func(i ing) { i.Spec.Rules[0].HTTP.Paths = nil }, []string{rule + ".http.paths: Required value"}},
		{"rule of a host alone", func(i ing) { i.Spec.Rules[0].HTTP = nil }, nil},
		{"address as host", func(i ing) { i.Spec.Rules[0].Host = "1.2.3.4" }, []string{rule + `.host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`}},
		{"bad host", func(i ing) { i.Spec.Rules[0].Host = "A" }, []string{rule + `.host: Invalid value: "A": ` + lower}},
		{"wildcard", func(i ing) { i.Spec.Rules[0].Host = "*.a.example.com" }, nil},
		{"bad wildcard", func(i ing) { i.Spec.Rules[0].Host = "a.*.example.com" }, []string{rule + `.host: Invalid value: "a.*.example.com": ` + wildcard}},
		{"no path type", func(i ing) { first(i).PathType = nil }, []string{path + ".pathType: Required value: pathType must be specified"}},
		{"unknown path type", func(i ing) { first(i).PathType = new(networkingv1.PathType("Regex")) }, []string{path + `.pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"`}},
		{"relative path", func(i ing) { first(i).Path = "a" }, []string{path + `.path: Invalid value: "a": must be an absolute path`}},
		{"no path", func(i ing) { first(i).Path = "" }, []string{path + `.path: Invalid value: "": must be an absolute path`}},
		{"parts of a path", func(i ing) { first(i).Path = "//./../%2f%2F/.." }, []string{
			path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '//'`, path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '/./'`,
			path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '/../'`, path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '%2f'`,
			path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '%2F'`, path + `.path: Invalid value: "//./../%2f%2F/..": cannot end with '/..'`,
		}},
		{"end of a path", func(i ing) { first(i).Path = "/a/." }, []string{path + `.path: Invalid value: "/a/.": cannot end with '/.'`}},
		{"any path", func(i ing) {
			first(i).Path, first(i).PathType = "/a/..//", new(networkingv1.PathTypeImplementationSpecific)
		}, nil},
		{"any relative path", func(i ing) { first(i).Path, first(i).PathType = "a", new(networkingv1.PathTypeImplementationSpecific) }, []string{path + `.path: Invalid value: "a": must be an absolute path`}},
		{"two backends", func(i ing) { first(i).Backend.Resource = &corev1.TypedLocalObjectReference{} }, []string{path + `.backend: Invalid value: "": cannot set both resource and service backends`}},
		{"resource", resource(new("example.com"), "Bucket", "b"), nil},
		{"bad resource", resource(new("A"), "a/b", ""), []string{
			path + `.backend.resource.apiGroup: Invalid value: "A": ` + lower, path + `.backend.resource.kind: Invalid value: "a/b": may not contain '/'`, path + ".backend.resource.name: Required value",
		}},
		{"resource without a kind", resource(nil, "", ".."), []string{path + ".backend.resource.kind: Required value", path + `.backend.resource.name: Invalid value: "..": may not be '..'`}},
		{"no service", func(i ing) { first(i).Backend.Service.Name = "" }, []string{path + ".backend.service.name: Required value"}},
		{"bad service", func(i ing) { first(i).Backend.Service.Name = "A" }, []string{path + `.backend.service.name: Invalid value: "A": ` + label}},
		{"no port", func(i ing) { first(i).Backend.Service.Port.Number = 0 }, []string{path + ".backend: Required value: port name or number is required"}},
		{"two ports", func(i ing) { first(i).Backend.Service.Port.Name = "http" }, []string{path + `.backend: Invalid value: "": cannot set both port name & port number`}},
		{"bad port", func(i ing) { first(i).Backend.Service.Port.Number = -1 }, []string{path + ".backend.service.port.number: Invalid value: -1: " + ports}},
		{"bad port name", func(i ing) { first(i).Backend.Service.Port = networkingv1.ServiceBackendPort{Name: "1"} }, []string{path + `.backend.service.port.name: Invalid value: "1": must contain at least one letter (a-z)`}},
		{"bad TLS", func(i ing) { i.Spec.TLS[0].Hosts, i.Spec.TLS[0].SecretName = []string{"A", "*"}, "B" }, []string{
			`spec.tls[0].hosts[0]: Invalid value: "A": ` + lower, `spec.tls[0].hosts[1]: Invalid value: "*": ` + wildcard, `spec.tls[0].secretName: Invalid value: "B": ` + lower,
		}},
		{"bad class", func(i ing) { i.Spec.IngressClassName = new("A") }, []string{`spec.ingressClassName: Invalid value: "A": ` + lower}},
		{"class twice", func(i ing) { i.Annotations = map[string]string{annotationIngressClass: "nginx"} }, nil},
		{"class by annotation", func(i ing) {
			i.Spec.IngressClassName, i.Annotations = nil, map[string]string{annotationIngressClass: "other"}
		}, nil},
		{"two classes", func(i ing) { i.Annotations = map[string]string{annotationIngressClass: "other"} },
			[]string{"annotations.kubernetes.io/ingress.class: Invalid value: \"other\": must match `ingressClassName` when both are specified"}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, validateIngress(newIngress(tc.change)), tc.want...) })
	}
	odd := newIngress(func(i ing) {
		i.Spec.TLS[0].SecretName, i.Spec.Rules[0].Host, i.Spec.Rules[0].HTTP.Paths = "B", "*.example.com", nil
		i.Annotations = map[string]string{annotationIngressClass: "other"}
	})
	errortest.Exactly(t, validateIngressUpdate(odd, odd))
	errortest.Exactly(t, validateIngressUpdate(odd, newIngress(nil)), "spec.rules[0].http.paths: Required value", `spec.tls[0].secretName: Invalid value: "B": `+lower)
	status := func(ip, host string) ing {
		return newIngress(func(i ing) {
			i.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: ip, Hostname: host}}
		})
	}
	errortest.Exactly(t, validateIngressStatus(status("1.2.3.4", "a.example.com"), newIngress(nil)))
	errortest.Exactly(t, validateIngressStatus(status("01.2.3.4", ""), status("01.2.3.4", "")))
	errortest.Exactly(t, validateIngressStatus(status("x", "1.2.3.4"), newIngress(nil)), `status.loadBalancer.ingress[0].ip: Invalid value: "x": `+badIP,
		`status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`)
}
