package defaults

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	replicas               = 1
	revisionHistory        = 10
	progressDeadline       = 600
	surge                  = "25%"
	clientIPSeconds  int32 = 3 * 60 * 60
)

// Deployment fills a deployment.
func Deployment(d *appsv1.Deployment) {
	PodTemplate(&d.Spec.Template)
	set(&d.Spec.Replicas, int32(replicas))
	set(&d.Spec.RevisionHistoryLimit, int32(revisionHistory))
	set(&d.Spec.ProgressDeadlineSeconds, int32(progressDeadline))
	setString(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return
	}
	if d.Spec.Strategy.RollingUpdate == nil {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
	}
	set(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString(surge))
	set(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString(surge))
}

// ReplicaSet fills a replica set.
func ReplicaSet(rs *appsv1.ReplicaSet) {
	PodTemplate(&rs.Spec.Template)
	set(&rs.Spec.Replicas, int32(replicas))
}

// Service fills a service, but for what is allocated.
func Service(s *corev1.Service) {
	setString(&s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch s.Spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		s.Spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		c := s.Spec.SessionAffinityConfig
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			seconds := clientIPSeconds
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
	setString(&s.Spec.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		setString(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	external := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
	if external || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0 {
		setString(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if external || s.Spec.Type == corev1.ServiceTypeClusterIP {
		set(&s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		set(&s.Spec.AllocateLoadBalancerNodePorts, true)
	}
}

// Secret fills a secret, and moves stringData, which is only ever sent, into data.
func Secret(s *corev1.Secret) {
	setString(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

// Namespace fills a namespace, and labels it with its name.
func Namespace(n *corev1.Namespace) {
	setString(&n.Status.Phase, corev1.NamespaceActive)
	if n.Name == "" || n.Labels[corev1.LabelMetadataName] == n.Name {
		return
	}
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = n.Name
	n.Labels = labels
}

// Node fills a node: what can be allocated is all that it has, unless it says otherwise.
func Node(n *corev1.Node) {
	roundUp(n.Status.Capacity)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	roundUp(n.Status.Allocatable)
}

// EndpointSlice fills an endpoint slice.
func EndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		set(&s.Ports[i].Name, "")
		set(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}
