package registrytest

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
)

// DualStack configures a cluster with both address families and 100 node ports.
func DualStack(c *Config) {
	c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24"), netip.MustParsePrefix("fd00:7::/112")}
	c.NodePorts = allocate.PortRange{First: 30000, Last: 30099}
}

// Pod returns a new pod with the label app=web and one container.
func Pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.14.2"}}},
	}
}

// Service returns a new service with port 80 and the changes.
func Service(name string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}
