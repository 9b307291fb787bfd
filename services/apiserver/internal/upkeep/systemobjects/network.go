package systemobjects

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
)

// networkAccount returns the service account of the network parts of node agents.
func networkAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: nodeapi.NetworkAccountNamespace, Name: nodeapi.NetworkAccount}}
}

// dnsService returns the Service by which pods ask the DNS servers; nil if there is to be none, or the range
// has no such address. It has no selector: each node agent answers the questions of its own node.
func (o *Objects) dnsService() *corev1.Service {
	address, ok := allocate.NewRange(o.ServiceCIDRs[0]).Nth(nodeapi.DNSServiceIndex)
	if !o.DNS || !ok {
		return nil
	}
	single, port := corev1.IPFamilyPolicySingleStack, func(name string, protocol corev1.Protocol, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: number, TargetPort: intstr.FromInt32(number)}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: nodeapi.DNSServiceNamespace, Name: nodeapi.DNSService,
			Labels: map[string]string{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: address.String(), ClusterIPs: []string{address.String()}, IPFamilyPolicy: &single,
			IPFamilies: dualstack.FamiliesOf(o.ServiceCIDRs[:1]), Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{
				port("dns", corev1.ProtocolUDP, nodeapi.DNSPort), port("dns-tcp", corev1.ProtocolTCP, nodeapi.DNSPort),
			},
		},
	}
}
