package service

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	badIP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
	label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	ports = "must be between 1 and 65535, inclusive"
	names = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	lower = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
)

// newService returns a valid service with a change; its defaults are set.
func newService(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{
		ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, IPFamilies: []corev1.IPFamily{"IPv4"}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
	if change != nil {
		change(s)
	}
	defaultService(s)
	return s
}

func TestService(t *testing.T) {
	type svc = *corev1.Service
	for _, tc := range []struct {
		name   string
		change func(svc)
		want   []string
	}{
		{"plain", nil, nil},
		{"name of digits", func(s svc) { s.Name = "1st" }, nil},
		{"bad name", func(s svc) { s.Name = "A" }, []string{`metadata.name: Invalid value: "A": ` + label}},
		{"no ports", func(s svc) { s.Spec.Ports = nil }, []string{"spec.ports: Required value"}},
		{"headless without ports", func(s svc) { s.Spec.Ports, s.Spec.ClusterIP, s.Spec.ClusterIPs = nil, "None", []string{"None"} }, nil},
		{"headless node port", func(s svc) { s.Spec.Type, s.Spec.ClusterIP, s.Spec.ClusterIPs = "NodePort", "None", []string{"None"} }, []string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services`}},
		{"headless balancer", func(s svc) {
			s.Spec.Type, s.Spec.ClusterIP, s.Spec.ClusterIPs = "LoadBalancer", "None", []string{"None"}
		}, []string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer services`}},
		{"external", func(s svc) { s.Spec = corev1.ServiceSpec{Type: "ExternalName", ExternalName: "a.example.com."} }, nil},
		{"external with addresses", func(s svc) { s.Spec.Type = "ExternalName" }, []string{
			"spec.clusterIPs: Forbidden: may not be set for ExternalName services", "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
			"spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services", "spec.externalName: Required value",
		}},
		{"bad external name", func(s svc) { s.Spec = corev1.ServiceSpec{Type: "ExternalName", ExternalName: "-a"} }, []string{`spec.externalName: Invalid value: "-a": ` + lower}},
		{"unknown type", func(s svc) { s.Spec.Type = "Magic" }, []string{`spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		{"unnamed ports", func(s svc) { s.Spec.Ports = []corev1.ServicePort{{Port: 1}, {Port: 2, Name: "b"}} }, []string{"spec.ports[0].name: Required value"}},
		{"one name for two", func(s svc) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "http", Port: 81}) }, []string{`spec.ports[1].name: Duplicate value: "http"`}},
		{"bad port name", func(s svc) { s.Spec.Ports[0].Name = "A" }, []string{`spec.ports[0].name: Invalid value: "A": ` + label}},
		{"port 0", func(s svc) { s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort = 0, intstr.FromInt32(1) }, []string{"spec.ports[0].port: Invalid value: 0: " + ports}},
		{"bad target", func(s svc) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(65536) }, []string{"spec.ports[0].targetPort: Invalid value: 65536: " + ports}},
		{"bad target name", func(s svc) { s.Spec.Ports[0].TargetPort = intstr.FromString("1") }, []string{`spec.ports[0].targetPort: Invalid value: "1": must contain at least one letter (a-z)`}},
		{"unknown protocol", func(s svc) { s.Spec.Ports[0].Protocol = "ICMP" }, []string{`spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`}},
		{"bad application protocol", func(s svc) { s.Spec.Ports[0].AppProtocol = new("a b") }, []string{`spec.ports[0].appProtocol: Invalid value: "a b": ` + names}},
		{"node port of a plain service", func(s svc) { s.Spec.Ports[0].NodePort = 30000 }, []string{"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		{"one node port for two", func(s svc) {
			s.Spec.Type = "NodePort"
			s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 1, NodePort: 30000}, {Name: "b", Port: 2, NodePort: 30000}, {Name: "c", Port: 1, Protocol: "UDP", NodePort: 30000}}
		}, []string{"spec.ports[1].nodePort: Duplicate value: 30000"}},
		{"one port twice", func(s svc) {
			s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 1}, {Name: "c", Port: 1, Protocol: "UDP"}}
		}, []string{`spec.ports[1]: Duplicate value: {"protocol":"TCP","port":1,"targetPort":0}`}},
		{"bad selector", func(s svc) { s.Spec.Selector = map[string]string{"a": "b c"} }, []string{`spec.selector: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		{"unknown affinity", func(s svc) { s.Spec.SessionAffinity = "Cookie" }, []string{`spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"`}},
		{"affinity for more than a day", func(s svc) {
			s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = "ClientIP", &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(86401))}}
		}, []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400"}},
		{"external addresses", func(s svc) {
			s.Spec.ExternalIPs = []string{"x", "0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "ff02::1", "1.2.3.4", "01.2.3.4"}
		}, []string{
			`spec.externalIPs[0]: Invalid value: "x": ` + badIP, `spec.externalIPs[1]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`,
			`spec.externalIPs[2]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
			`spec.externalIPs[3]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`,
			`spec.externalIPs[4]: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`,
			`spec.externalIPs[5]: Invalid value: "ff02::1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`,
			`spec.externalIPs[7]: Invalid value: "01.2.3.4": must not have leading 0s`,
		}},
		{"ranges of clients", func(s svc) {
			s.Spec.Type, s.Spec.LoadBalancerSourceRanges = "LoadBalancer", []string{" 10.0.0.0/8 ", "10.0.0.1/8", "x"}
		}, []string{
			`spec.LoadBalancerSourceRanges[1]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length`,
			`spec.LoadBalancerSourceRanges[2]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`,
		}},
		{"ranges of clients of a plain service", func(s svc) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }, []string{"spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"}},
		{"ranges by annotation", func(s svc) {
			s.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "10.0.0.0/8, y"}
		}, []string{
			"metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Forbidden: may only be used when `type` is 'LoadBalancer'",
			`metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "y": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`,
		}},
		{"fields of load balancers", func(s svc) {
			s.Spec.AllocateLoadBalancerNodePorts, s.Spec.LoadBalancerClass, s.Spec.HealthCheckNodePort = new(true), new("a/b"), 30000
		}, []string{
			"spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'", "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
			"spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
		}},
		{"bad class", func(s svc) { s.Spec.Type, s.Spec.LoadBalancerClass = "LoadBalancer", new("a b") }, []string{`spec.loadBalancerClass: Invalid value: "a b": ` + names}},
		{"health checks", func(s svc) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = "LoadBalancer", "Local", 70000
		}, []string{"spec.healthCheckNodePort: Invalid value: 70000: " + ports}},
		{"health check port to be given", func(s svc) { s.Spec.Type, s.Spec.ExternalTrafficPolicy = "LoadBalancer", "Local" }, nil},
		{"external traffic of a plain service", func(s svc) { s.Spec.ExternalTrafficPolicy = "Local" }, []string{`spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`}},
		{"external traffic by external address", func(s svc) { s.Spec.ExternalIPs, s.Spec.ExternalTrafficPolicy = []string{"1.2.3.4"}, "Local" }, nil},
		{"unknown policies", func(s svc) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.InternalTrafficPolicy, s.Spec.TrafficDistribution = "NodePort", "Some", new(corev1.ServiceInternalTrafficPolicy("Any")), new("PreferFar")
		}, []string{
			`spec.externalTrafficPolicy: Unsupported value: "Some": supported values: "Cluster", "Local"`, `spec.internalTrafficPolicy: Unsupported value: "Any": supported values: "Cluster", "Local"`,
			`spec.trafficDistribution: Unsupported value: "PreferFar": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"`,
		}},
		{"annotations that disagree", func(s svc) {
			s.Annotations = map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "a", corev1.AnnotationTopologyMode: "b"}
		}, []string{`metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "b": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified`}},
		{"the plural alone", func(s svc) { s.Spec.ClusterIP = "" }, []string{"spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: must be empty when `clusterIP` is not specified"}},
		{"the singular alone", func(s svc) { s.Spec.ClusterIPs = nil }, []string{"spec.clusterIPs: Required value"}},
		{"singular and plural", func(s svc) { s.Spec.ClusterIP = "10.0.0.2" }, []string{"spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: first value must match `clusterIP`"}},
		{"unknown families", func(s svc) {
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []corev1.IPFamily{"IPv4", "IPv4", "IPX"}, new(corev1.IPFamilyPolicy("Both"))
		}, []string{
			`spec.ipFamilies[1]: Duplicate value: "IPv4"`, `spec.ipFamilies[2]: Unsupported value: "IPX": supported values: "IPv4", "IPv6"`,
			`spec.ipFamilyPolicy: Unsupported value: "Both": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"`,
		}},
		{"none and more", func(s svc) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None", "fd00::1"} }, []string{`spec.clusterIPs: Invalid value: ["None","fd00::1"]: 'None' must be the first and only value`}},
		{"no address", func(s svc) { s.Spec.ClusterIPs = []string{"10.0.0.1", "::ffff:1.2.3.4", "None"} }, []string{
			`spec.clusterIPs[1]: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address`, `spec.clusterIPs[2]: Invalid value: "None": ` + badIP,
			`spec.clusterIPs: Invalid value: ["10.0.0.1","::ffff:1.2.3.4","None"]: may only hold up to 2 values`,
		}},
		{"one family twice", func(s svc) { s.Spec.ClusterIPs = []string{"10.0.0.1", "10.0.0.2"} }, []string{`spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each IP family`}},
		{"families in the other order", func(s svc) {
			s.Spec.ClusterIPs, s.Spec.IPFamilies = []string{"10.0.0.1", "fd00::1"}, []corev1.IPFamily{"IPv6", "IPv4"}
		}, []string{"spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`", "spec.clusterIPs[1]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by `ipFamilies[1]`"}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, validateService(newService(tc.change)), tc.want...) })
	}
	bare := newService(nil)
	bare.Spec.SessionAffinity, bare.Spec.Type, bare.Spec.Ports[0].Protocol = "", "", ""
	errortest.Exactly(t, validateService(bare), "spec.ports[0].protocol: Required value", "spec.sessionAffinity: Required value", "spec.type: Required value")
	bare = newService(func(s *corev1.Service) { s.Spec.Type = "LoadBalancer" })
	bare.Spec.AllocateLoadBalancerNodePorts, bare.Spec.ExternalTrafficPolicy, bare.Spec.InternalTrafficPolicy = nil, "", nil
	errortest.Exactly(t, validateService(bare), "allocateLoadBalancerNodePorts: Required value", "spec.externalTrafficPolicy: Required value", "spec.internalTrafficPolicy: Required value")
	for _, config := range []*corev1.SessionAffinityConfig{nil, {}, {ClientIP: &corev1.ClientIPConfig{}}} {
		bare = newService(nil)
		bare.Spec.SessionAffinity, bare.Spec.SessionAffinityConfig = "ClientIP", config
		errortest.Contain(t, validateService(bare), "Required value: when session affinity type is ClientIP")
	}
	bare = newService(nil)
	bare.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
	errortest.Exactly(t, validateService(bare), "spec.sessionAffinityConfig: Forbidden: must not be set when session affinity is None")
}

func TestServiceUpdate(t *testing.T) {
	type svc = *corev1.Service
	dual := func(s svc) {
		s.Spec.ClusterIPs, s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []string{"10.0.0.1", "fd00::1"}, []corev1.IPFamily{"IPv4", "IPv6"}, new(corev1.IPFamilyPolicyRequireDualStack)
	}
	none := func(s svc) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} }
	for _, tc := range []struct {
		name     string
		old, now func(svc)
		want     []string
	}{
		{"nothing", nil, nil, nil},
		{"another address", nil, func(s svc) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.2", []string{"10.0.0.2"} }, []string{`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`}},
		{"no address", nil, func(s svc) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil }, []string{"spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"}},
		{"becoming headless", nil, none, []string{`spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set`}},
		{"becoming dual", nil, dual, nil},
		{"becoming dual with another first address", nil, func(s svc) {
			dual(s)
			s.Spec.ClusterIP, s.Spec.ClusterIPs[0] = "10.0.0.2", "10.0.0.2"
		}, []string{`spec.clusterIPs[0]: Invalid value: ["10.0.0.2","fd00::1"]: may not change once set`}},
		{"becoming single", dual, nil, nil},
		{"becoming single without saying so", dual, func(s svc) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) }, []string{
			`spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be set to 'SingleStack' when releasing the secondary clusterIP`,
			`spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be set to 'SingleStack' when releasing the secondary ipFamily`,
		}},
		{"the other family", nil, func(s svc) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"} }, []string{
			`spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set`, "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`",
		}},
		{"the other family first", nil, func(s svc) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"} }, []string{
			`spec.ipFamilies[0]: Invalid value: ["10.0.0.1"]: may not change once set`, "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`",
		}},
		{"headless, other families", none, func(s svc) { none(s); s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"} }, nil},
		{"from an external name", func(s svc) { s.Spec = corev1.ServiceSpec{Type: "ExternalName", ExternalName: "a"} }, nil, nil},
		{"class", func(s svc) { s.Spec.Type, s.Spec.LoadBalancerClass = "LoadBalancer", new("a/b") }, func(s svc) { s.Spec.Type, s.Spec.LoadBalancerClass = "LoadBalancer", new("a/c") },
			[]string{`spec.loadBalancerClass: Invalid value: "a/c": may not change once set`}},
		{"class of a new balancer", nil, func(s svc) { s.Spec.Type, s.Spec.LoadBalancerClass = "LoadBalancer", new("a/c") }, nil},
		{"health check port", func(s svc) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = "LoadBalancer", "Local", 30000
		}, func(s svc) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = "LoadBalancer", "Local", 30001
		}, []string{"spec.healthCheckNodePort: Forbidden: field is immutable"}},
		{"unchanged values", func(s svc) {
			s.Spec.Type, s.Spec.ExternalIPs, s.Spec.LoadBalancerSourceRanges = "LoadBalancer", []string{"01.2.3.4"}, []string{"10.0.0.1/8 "}
		}, func(s svc) {
			s.Spec.Type, s.Spec.ExternalIPs, s.Spec.LoadBalancerSourceRanges = "LoadBalancer", []string{"01.2.3.4"}, []string{"10.0.0.1/8"}
		}, nil},
		{"unchanged annotation", func(s svc) {
			s.Spec.Type, s.Annotations = "LoadBalancer", map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "y"}
		}, func(s svc) {
			s.Spec.Type, s.Annotations = "LoadBalancer", map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "y"}
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errortest.Exactly(t, validateServiceUpdate(newService(tc.now), newService(tc.old)), tc.want...)
		})
	}
}

func TestServiceStatus(t *testing.T) {
	status := func(points ...corev1.LoadBalancerIngress) *corev1.Service {
		return newService(func(s *corev1.Service) {
			s.Spec.Type, s.Status.LoadBalancer.Ingress = "LoadBalancer", points
		})
	}
	errortest.Exactly(t, validateServiceStatus(status(corev1.LoadBalancerIngress{IP: "1.2.3.4"}, corev1.LoadBalancerIngress{Hostname: "a.example.com"}), status()))
	bare := status()
	bare.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "x", IPMode: new(corev1.LoadBalancerIPModeVIP)}, {IP: "1.2.3.4"}, {Hostname: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPModeVIP)},
		{IP: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPMode("Bridge"))}, {Hostname: "A"}, {IP: "01.2.3.4", IPMode: new(corev1.LoadBalancerIPModeProxy)},
	}
	errortest.Exactly(t, validateServiceStatus(bare, status(corev1.LoadBalancerIngress{IP: "01.2.3.4"})),
		`status.loadBalancer.ingress[0].ip: Invalid value: "x": `+badIP, "status.loadBalancer.ingress[1].ipMode: Required value: must be specified when `ip` is set",
		`status.loadBalancer.ingress[2].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`,
		"status.loadBalancer.ingress[2].ipMode: Forbidden: may not be specified when `ip` is not set",
		`status.loadBalancer.ingress[3].ipMode: Unsupported value: "Bridge": supported values: "Proxy", "VIP"`,
		`status.loadBalancer.ingress[4].hostname: Invalid value: "A": `+lower)
	plain := newService(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = bare.Status.LoadBalancer.Ingress })
	errortest.Exactly(t, validateServiceStatus(plain, plain), "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'")
}
